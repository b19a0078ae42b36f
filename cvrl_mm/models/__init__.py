from .cvrl import CVRL
from .infonce_head import InfoNCEHead

__all__ = ['CVRL', 'InfoNCEHead']
