"""Camera model: colours and noise that identify a video but are independent of its class."""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True)
class Camera:
    """Colour and noise of a camera, equal in all frames of a video.

    They are a shortcut for the contrastive loss (Eq. 1), which augmentation must remove.

    Attributes:
        gain: Factor of all values.
        contrast: Factor of the difference from mid-grey.
        saturation: Factor of the saturation in HSV.
        hue: Rotation of the hue in turns.
        noise: Fixed-pattern noise in grey levels, (H, W).
    """

    gain: float
    contrast: float
    saturation: float
    hue: float
    noise: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, size: int) -> 'Camera':
        """Draw a camera for frames of ``size`` by ``size`` pixels."""
        return cls(
            gain=rng.uniform(0.82, 1.18),
            contrast=rng.uniform(0.82, 1.18),
            saturation=rng.uniform(0.8, 1.2),
            hue=rng.uniform(-0.05, 0.05),
            noise=(rng.uniform(0, 7.5) * rng.standard_normal((size, size))).astype(np.float32),
        )

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Apply the camera to an image, (H, W, 3) float32 RGB, from 0 to 255."""
        hsv = cv2.cvtColor(np.clip(image, 0, 255) / 255, cv2.COLOR_RGB2HSV)  # hue in degrees
        hsv[..., 0] = (hsv[..., 0] + 360 * self.hue) % 360
        hsv[..., 1] = np.clip(hsv[..., 1] * self.saturation, 0, 1)
        image = 255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
        image = self.gain * (128 + self.contrast * (image - 128)) + self.noise[..., None]
        return np.clip(image, 0, 255)
