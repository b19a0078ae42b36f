import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import cvrl_cli
import cvrl_mm
from cvrl_mm.encoder.export import run_graph
from cvrl_mm.encoder.files import save_weights
from cvrl_mm.own_videos.predict import is_classifier, predict
from tests.http_server import serve
from tests.own_videos.folder import BACKBONE, CHANNELS, small_encoder
from tests.script import run_cvrl
from tests.videos import encode

CLASSES = ['wave', '$x <b>', 'throw']
HEAD = "model = dict(cls_head=dict(type='LinearProbeHead', l2_normalize={}))"


def write_classifier(path: Path, l2: bool = False, **changes: object) -> tuple[Path, dict]:
    torch.manual_seed(0)
    state = {f'backbone.{k}': v for k, v in small_encoder().backbone.state_dict().items()}
    state['cls_head.fc_cls.weight'] = torch.randn(3, CHANNELS)
    state['cls_head.fc_cls.bias'] = torch.randn(3)
    meta = dict(backbone=BACKBONE, input=dict(clip_len=4, frame_interval=2, size=32))
    meta |= dict(cfg=HEAD.format(l2), dataset_meta=dict(classes=CLASSES)) | changes
    return save_weights(dict(state_dict=state, meta=meta), path), state


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    (tmp_path / 'videos').mkdir()
    encode(tmp_path / 'videos/long.mp4', num_frames=40)
    encode(tmp_path / 'videos/short.mp4', num_frames=5)
    (tmp_path / 'videos/text.mp4').write_text('no video')
    return tmp_path / 'videos'


@pytest.mark.parametrize('l2', [False, True])
def test_probabilities_are_those_of_the_layer(tmp_path: Path, videos: Path, l2: bool):
    path, state = write_classifier(tmp_path / 'classifier.pth', l2)
    classifier = cvrl_mm.load_classifier(path.parent)
    encoder = cvrl_mm.load_encoder(path.parent)
    feats = encoder.features(encoder.transform(videos / 'long.mp4', 3))
    feats = F.normalize(feats, dim=1) if l2 else feats
    weight, bias = state['cls_head.fc_cls.weight'], state['cls_head.fc_cls.bias']
    expected = (feats @ weight.T + bias).softmax(1).mean(0)
    found = classifier(videos / 'long.mp4', 3)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    torch.testing.assert_close(torch.tensor([found[name] for name in CLASSES]), expected)


def test_a_classifier_at_an_address(tmp_path: Path, monkeypatch):
    path, _ = write_classifier(tmp_path / 'classifier.pth')
    monkeypatch.setattr(torch.hub, '_hub_dir', str(tmp_path / 'hub'))
    with serve(tmp_path) as (address, _):
        assert is_classifier(f'{address}/{path.name}')
        assert not is_classifier(f'{address}/missing.pth')


def test_windows_are_classified_in_order(tmp_path: Path, videos: Path):
    path, _ = write_classifier(tmp_path / 'classifier.pth')
    classifier = cvrl_mm.load_classifier(path)
    paths = [str(videos / name) for name in ('long.mp4', 'short.mp4', 'text.mp4', 'missing.mp4')]
    long, *failed = predict(classifier, paths, every_seconds=0.2)
    assert [len(p.probs) for p in failed] == [0, 0, 0]
    assert [p.error is None for p in failed] == [False] * 3 and 'shorter' in failed[0].error
    parts = list(classifier.encoder.windows(paths[0], 0.2))
    clips = torch.cat([clips for clips, _ in parts])
    torch.testing.assert_close(long.probs, classifier.probabilities(clips))
    np.testing.assert_allclose(long.times, np.concatenate([times for _, times in parts]))
    whole = list(predict(classifier, paths))
    assert [p.error is None for p in whole] == [True, True, False, False]
    assert classifier.named(whole[0].probs[0]) == pytest.approx(classifier(paths[0]))


def test_the_command_prints_lines_json_and_csv(tmp_path: Path, videos: Path, capsys):
    path, _ = write_classifier(tmp_path / 'classifier/classifier.pth')
    folder = str(path.parent)
    with pytest.raises(SystemExit, match='1 of 3'):  # after the others
        cvrl_cli.main(['predict', folder, str(videos)])
    lines, notes = capsys.readouterr()
    assert len(lines.splitlines()) == 2 and 'text.mp4' in notes
    cvrl_cli.main(['predict', folder, str(videos / 'long.mp4'), '--json'])
    (row,) = json.loads(capsys.readouterr().out)
    assert sum(row['classes'].values()) == pytest.approx(1) and set(row['classes']) == {*CLASSES}
    cvrl_cli.main(['predict', folder, str(videos / 'long.mp4'), '--csv', '--every', '0.5'])
    head, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert head == ['video', 'start', 'end', *CLASSES]
    assert [float(row[1]) for row in rows] == pytest.approx(
        [0.5 * i for i in range(len(rows))], abs=0.02
    )
    (picture,) = (path.parent / 'predictions').iterdir()
    assert picture.stat().st_size > 1000
    shutil.copyfile(videos / 'long.mp4', videos / os.fsdecode(b'\xff\n$.mp4'))  # an odd name
    with pytest.raises(SystemExit, match='2 of 4'):
        cvrl_cli.main(['predict', folder, str(videos), '--every', '0.4'])
    assert len([*(path.parent / 'predictions').iterdir()]) == 3  # other windows, other pictures


def test_a_reader_that_stops_is_no_error(tmp_path: Path, videos: Path):
    path, _ = write_classifier(tmp_path / 'classifier/classifier.pth')
    given = ['predict', str(path.parent), str(videos / 'long.mp4')]
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, '-c', 'import cvrl_cli; cvrl_cli.main()', *given]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, '')


@pytest.mark.parametrize(
    'changes',
    [
        dict(dataset_meta={}),
        dict(dataset_meta=dict(classes=['a', 'b'])),
        dict(cfg="model = dict(cls_head=dict(type='TSMHead'))"),
        dict(cfg=None),
        dict(backbone=None, cfg=HEAD.format(False)),
    ],
)
def test_other_files_are_refused(tmp_path: Path, changes: dict):
    path, _ = write_classifier(tmp_path / 'foreign.pth', **changes)
    with pytest.raises(ValueError, match=r'foreign\.pth'):
        cvrl_mm.load_classifier(path)


def test_a_folder_of_a_pretraining_is_named(tmp_path: Path):
    small_encoder().save(tmp_path / 'encoder.safetensors')
    with pytest.raises(FileNotFoundError, match=f'cvrl finetune {tmp_path}'):
        cvrl_mm.load_classifier(tmp_path)


@pytest.mark.parametrize('suffix', ['.onnx', '.pt2'])
def test_the_graph_of_a_classifier_has_its_classes(tmp_path: Path, monkeypatch, suffix: str):
    out = tmp_path / f'classifier{suffix}'
    path, _ = write_classifier(tmp_path / 'actions.pth', l2=True)
    if suffix == '.onnx':
        runtime = pytest.importorskip('onnxruntime')
        pytest.importorskip('onnxscript')
    run_cvrl(monkeypatch, 'convert', 'export', path, out)
    if suffix == '.onnx':
        told = runtime.InferenceSession(out).get_modelmeta().custom_metadata_map
    else:
        told = dict(classes='', input='')
        torch.export.load(out, extra_files=told)
    assert json.loads(told['classes']) == CLASSES
    clip_input = json.loads(told['input'])
    assert (clip_input['clip_len'], clip_input['frame_interval'], clip_input['fps']) == (4, 2, None)
    clips = torch.randint(0, 256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    expected = cvrl_mm.load_classifier(path).probabilities(clips)
    torch.testing.assert_close(run_graph(out, clips), expected, rtol=1e-4, atol=1e-5)
