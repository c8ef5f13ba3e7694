# A service of models: docs/service.md says how to run it.
FROM python:3.12-slim

RUN useradd --create-home --uid 10001 stream
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[cli,serve]' pyarrow

# Compiled code and what is learned outlive a container if these are volumes.
RUN mkdir -p /models /kept /home/stream/.cache && chown stream /models /kept /home/stream/.cache
USER stream
VOLUME ["/kept", "/home/stream/.cache"]
EXPOSE 8765
HEALTHCHECK --start-period=120s --timeout=5s CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8765); c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]

ENTRYPOINT ["kernelstream", "serve"]
CMD ["/models", "--checkpoint", "/kept", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
