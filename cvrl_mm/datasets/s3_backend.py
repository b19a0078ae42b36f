"""Read files from S3 and compatible storage."""

from typing import Any

from mmengine.fileio import BaseStorageBackend

from .http_backend import LARGEST_BYTES

FORBIDDEN = 403
GONE, REFUSED = (404, 410), (400, 401, FORBIDDEN)


class S3Backend(BaseStorageBackend):
    """Read objects from S3 or compatible storage such as MinIO or Ceph, with boto3.

    Credentials, region and endpoint come from boto3's environment variables and files
    (``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``, ``AWS_ENDPOINT_URL``, …).

    Args:
        timeout_seconds: Longest time without data from the server.
        **client: Arguments of ``boto3.client('s3', …)``, for example ``endpoint_url``.

    Raises:
        ImportError: boto3 is not installed.
    """

    def __init__(self, timeout_seconds: float = 10, **client: Any) -> None:
        try:
            import boto3
            import botocore.exceptions
            from botocore.config import Config
        except ImportError as error:
            raise ImportError("io_backend='s3' needs boto3: pip install boto3.") from error
        self._errors = botocore.exceptions
        config = Config(
            connect_timeout=timeout_seconds,
            read_timeout=timeout_seconds,
            retries=dict(total_max_attempts=1),  # the class Storage retries
        )
        # A separate session, because boto3's default session must not be shared between threads.
        self._client = boto3.session.Session().client('s3', config=config, **client)

    def get(self, filepath: str) -> bytes:
        """Download an object.

        Args:
            filepath: ``s3://BUCKET/KEY``.

        Raises:
            ValueError: The address has another form, or the object is larger than 1 GiB.
            FileNotFoundError: There is no such object or bucket.
            PermissionError: The credentials are missing or refused.
            OSError: Any other failure, such as a truncated answer.
        """
        return self._call('get_object', filepath)['Body']

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        """Download an object and decode it."""
        return self.get(filepath).decode(encoding)

    def exists(self, filepath: str) -> bool:
        """Return whether an object exists; True if the server refuses to answer.

        Without the right to list the bucket, S3 answers 403 for a missing object.

        Raises:
            OSError: The server cannot be reached, or there are no credentials.
        """
        try:
            self._call('head_object', filepath)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            if _status(error.__cause__) != FORBIDDEN:
                raise
        return True

    def _call(self, operation: str, address: str) -> dict[str, Any]:
        scheme, _, place = address.partition('://')
        bucket, _, key = place.partition('/')
        if scheme != 's3' or not bucket or not key:
            raise ValueError(f'{address} is not an address of the form s3://BUCKET/KEY')
        try:
            answer = getattr(self._client, operation)(Bucket=bucket, Key=key)
            if 'Body' in answer:
                if answer['ContentLength'] > LARGEST_BYTES:
                    raise ValueError(f'the object is larger than {LARGEST_BYTES} bytes')
                answer['Body'] = answer['Body'].read()
            return answer
        except self._errors.ClientError as error:
            status = _status(error)
            kind = OSError
            if status in GONE:
                kind = FileNotFoundError
            elif status in REFUSED:
                kind = PermissionError
            raise kind(str(error)) from error
        except (self._errors.NoCredentialsError, self._errors.ProfileNotFound) as error:
            raise PermissionError(str(error)) from error
        except self._errors.BotoCoreError as error:
            raise ConnectionError(str(error)) from error


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status of boto3's ``ClientError``; None for other errors."""
    response = getattr(error, 'response', {})
    return response.get('ResponseMetadata', {}).get('HTTPStatusCode')
