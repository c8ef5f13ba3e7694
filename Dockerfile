# A service of models: docs/service.md says how to run it.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 stream
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[cli,serve]'

# Compiled code and what is learned outlive a container where these are volumes.
RUN mkdir -p /models /kept /home/stream/.cache && chown stream /models /kept /home/stream/.cache
USER stream
VOLUME ["/kept", "/home/stream/.cache"]
EXPOSE 8765
HEALTHCHECK --start-period=120s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/readyz')"]

ENTRYPOINT ["kernelstream", "serve"]
CMD ["/models", "--checkpoint", "/kept", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
