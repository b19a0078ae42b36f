# default_runtime.py and the registration of the detection modules, which need mmdet
_base_ = './default_runtime.py'
custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])
