"""Convert checkpoints from and to this package's R3D backbone."""

import argparse

from cvrl_mm.convert import (
    convert_tf_checkpoint,
    export_slow_only,
    extract_backbone,
    inflate_resnet,
    save_weights,
)

COMMANDS = dict(
    tf=(convert_tf_checkpoint, 'a backbone that the authors released, prefix or .tar.gz'),
    backbone=(extract_backbone, 'backbone weights alone; a hash is added to the name of OUT'),
    slowonly=(export_slow_only, "weights for pretrained= of MMAction2's ResNet3dSlowOnly"),
    inflate=(inflate_resnet, 'R3D weights from a 2D ResNet: torchvision, timm, mmpretrain or ours'),
)
EXAMPLE = """example:
  python tools/convert_checkpoint.py tf r3d_1x_k400_800ep.tar.gz r3d50_k400_released.pth

and in the config that uses it:
  backbone=dict(type='R3DSlow', depth=50, padding='tf_same',
                init_cfg=dict(type='Pretrained', checkpoint='r3d50_k400_released.pth',
                              prefix='backbone.'))
"""


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest='command', required=True)
    for name, (_, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument('source', metavar='IN', help='the checkpoint to read')
        command.add_argument('out', metavar='OUT.pth', help='the checkpoint to write')
    return parser.parse_args()


def main() -> None:
    """Convert, or say in one line why not."""
    args = parse_args()
    convert, _ = COMMANDS[args.command]
    try:
        checkpoint = convert(args.source)
    except (OSError, ValueError) as error:
        raise SystemExit(f'{args.command}: {error}') from error
    save_weights(checkpoint, args.out, hash_in_name=args.command == 'backbone')


if __name__ == '__main__':
    main()
