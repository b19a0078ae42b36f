"""Convert checkpoints to and from the R3D backbone of this package.

If OUT ends in .safetensors, it is written in this format, and otherwise in the format of torch.
Both contain a description: architecture, padding, input, origin, training config and licence.

Examples:
    cvrl convert tf r3d_1x_k400_800ep.tar.gz r3d50_k400_released.pth
    cvrl convert export epoch_800.pth encoder.onnx
    cvrl convert export work_dirs/classifier classifier.onnx
    cvrl convert encoder epoch_800.pth encoder.safetensors --license MIT

In a config that starts from the first file:
    backbone=dict(type='R3DSlow', depth=50, padding='tf_same',
                  init_cfg=dict(type='Pretrained', checkpoint='r3d50_k400_released.pth',
                                prefix='backbone.'))
In Python:
    encoder = cvrl_mm.load_encoder('encoder.safetensors')
"""

from argparse import ArgumentParser, Namespace
from os.path import realpath

COMMANDS = dict(  # function of cvrl_mm.convert, and help
    tf=('convert_tf_checkpoint', 'a backbone that the authors released, prefix or .tar.gz'),
    slowfast=('convert_slowfast', "a SlowOnly encoder of SlowFast's zoo (.pyth)"),
    inflate=(
        'inflate_resnet',
        'R3D weights from a 2D ResNet: torchvision, timm, mmpretrain or ours',
    ),
)
DTYPES = ('float32', 'float16', 'bfloat16')


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    commands = parser.add_subparsers(dest='command', required=True)
    texts = {name: text for name, (_, text) in COMMANDS.items()}
    texts['encoder'] = 'a weights file for cvrl_mm.load_encoder: .safetensors or .pth'
    texts['export'] = 'a graph that runs without this package: .onnx or .pt2'
    for name, text in texts.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument('source', metavar='IN', help='the checkpoint to read')
        command.add_argument('out', metavar='OUT', help='the file to write')
        if name != 'export':
            command.add_argument('--license', help='licence of the weights, which is stored in OUT')
        if name in ('encoder', 'export'):
            command.add_argument(
                '--config',
                help='config of the clips, and of the architecture if IN does not describe it',
            )
        if name == 'export':
            command.add_argument('--dtype', choices=DTYPES, default='float32')


def run(args: Namespace) -> None:
    """Convert and write."""
    if realpath(args.source) == realpath(args.out):
        raise ValueError(f'{args.out} would replace the checkpoint that is read; give another OUT.')
    from cvrl_mm import convert
    from cvrl_mm.encoder.encoder import load_encoder
    from cvrl_mm.encoder.export import export_encoder
    from cvrl_mm.encoder.files import save_weights
    from cvrl_mm.own_videos.predict import is_classifier, load_classifier
    from cvrl_mm.runtime import read_config

    if args.command == 'export' and is_classifier(args.source):
        classifier = load_classifier(args.source)
        export_encoder(classifier.network, args.out, args.dtype, classifier.classes)
        return
    if args.command in ('encoder', 'export'):
        encoder = load_encoder(args.source, args.config and read_config(args.config, 'model'))
        if args.command == 'export':
            export_encoder(encoder, args.out, args.dtype)
            return
        encoder.meta |= dict(license=args.license) if args.license else {}
        encoder.save(args.out)
        return
    function, _ = COMMANDS[args.command]
    checkpoint = getattr(convert, function)(args.source)
    if args.license:
        checkpoint['meta']['license'] = args.license
    save_weights(checkpoint, args.out)
