# default_runtime.py and the registration of the detection modules, which need mmdet
_base_ = './default_runtime.py'
# The first rank evaluates all detections while the others wait
env_cfg = dict(dist_cfg=dict(timeout=7200))
custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])
