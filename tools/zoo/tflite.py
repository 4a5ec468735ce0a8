"""The zoo's TFLite files: MediaPipe's networks, and the one that the ONNX zoo has as basic-pitch."""

from __future__ import annotations

import numpy as np

from .inputs import photo, speech
from .models import Feeds, Member, Model

# name -> (file below mediapipe/modules, height, width, sha256)
_MEDIAPIPE = {
    "face-short": (
        "face_detection/face_detection_short_range",
        128,
        128,
        "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8",
    ),
    "face-full-sparse": (
        "face_detection/face_detection_full_range_sparse",
        192,
        192,
        "2c3728e6da56f21e21a320433396fb06d40d9088f2247c05e5635a688d45dfe1",
    ),
    "face-landmark": (
        "face_landmark/face_landmark",
        192,
        192,
        "1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814",
    ),
    "hand-full": (
        "hand_landmark/hand_landmark_full",
        224,
        224,
        "11c272b891e1a99ab034208e23937a8008388cf11ed2a9d776ed3d01d0ba00e3",
    ),
    "hand-lite": (
        "hand_landmark/hand_landmark_lite",
        224,
        224,
        "048edd3645c9bf7397d19a9f6e3a42957d6e414c9bea6598030a2e9b624156e6",
    ),
    "hand-recrop": (
        "holistic_landmark/hand_recrop",
        256,
        256,
        "67d996ce96f9d36fe17d2693022c6da93168026ab2f028f9e2365398d8ac7d5d",
    ),
    "iris": (
        "iris_landmark/iris_landmark",
        64,
        64,
        "d1744d2a09c25f501d39eba4faff47e53ecca8852c5ce19bce8eeac39357521f",
    ),
    "palm-full": (
        "palm_detection/palm_detection_full",
        192,
        192,
        "1b14e9422c6ad006cde6581a46c8b90dd573c07ab7f3934b5589e7cea3f89a54",
    ),
    "palm-lite": (
        "palm_detection/palm_detection_lite",
        192,
        192,
        "e9a4aaddf90dda56a87235303cf00e4c2d3fb28725f68fd88772997dac905c18",
    ),
    "pose": (
        "pose_detection/pose_detection",
        224,
        224,
        "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c",
    ),
    "pose-landmark": (
        "pose_landmark/pose_landmark_full",
        256,
        256,
        "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
    ),
    "selfie": (
        "selfie_segmentation/selfie_segmentation",
        256,
        256,
        "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c",
    ),
}


def _image(height: int, width: int) -> Feeds:
    return {"image": np.ascontiguousarray(photo(height, width).transpose(0, 2, 3, 1), np.float32)}


def _music(batch: int) -> Feeds:
    return {"serving_default_input_2:0": np.tile(speech(43844, 22050)[:, None], (batch, 1, 1))}


def _mediapipe(name: str) -> Model:
    file, height, width, sha256 = _MEDIAPIPE[name]
    member = Member("mediapipe==0.10.14", f"mediapipe/modules/{file}.tflite", sha256)
    about = f"{file.rpartition('/')[2]}, {height} x {width}"
    feeds = lambda: _image(height, width)  # noqa: E731
    return Model(name, about, "Apache-2.0", (member,), feeds, suffix=".tflite")


TFLITE: dict[str, Model] = {name: _mediapipe(name) for name in _MEDIAPIPE}
TFLITE["nmp"] = Model(
    "nmp",
    "pitches of music, as basic-pitch of the ONNX zoo",
    "Apache-2.0",
    (
        Member(
            "basic-pitch==0.4.0",
            "basic_pitch/saved_models/icassp_2022/nmp.tflite",
            "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
        ),
    ),
    lambda: _music(1),
    lambda: _music(2),
    suffix=".tflite",
)

__all__ = ["TFLITE"]
