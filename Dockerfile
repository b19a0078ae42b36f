# The two commands of the README, on a CPU:
#   docker build --tag cvrl_mm .
#   docker run --ipc=host cvrl_mm bash tools/quickstart.sh
#   docker run --ipc=host cvrl_mm bash tools/test.sh
FROM python:3.13-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git libgl1 libglib2.0-0 \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
WORKDIR /cvrl_mm
COPY . .
RUN bash -euc 'source tools/install.sh && enter_environment .venv 3.13 && install_once constraints.txt --editable ".[lite]"'
CMD ["bash", "tools/quickstart.sh"]
