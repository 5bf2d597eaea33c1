# docker build -t parley .
# docker run -d --name parley -p 127.0.0.1:8787:8787 -v parley:/data -e OPENAI_API_KEY -e TELEGRAM_TOKEN --stop-timeout 30 parley
# docker exec parley gateway token link
#
# The last command prints a link that signs a browser in. /data holds the database,
# http-token and, if there is one, config.toml. -p 8787:8787 opens the port to other
# machines, too; put a proxy with TLS in front of it then.
#
# The stop timeout is longer than agent.drain_timeout, so that answers under way
# are delivered. A copy of the database, while it runs:
#   docker exec parley gateway backup /data/copy.db

FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN make build VERSION="$VERSION"

FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin gateway \
 && install -d -o gateway -g gateway -m 0700 /data
COPY --from=build /src/bin/gateway /usr/local/bin/gateway
COPY LICENSE /usr/share/doc/parley/LICENSE
USER 10001:10001
WORKDIR /data
VOLUME /data
# Nobody outside of the container reaches 127.0.0.1 in it. What is published is up to -p.
ENV HTTP_LISTEN=0.0.0.0:8787
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["gateway", "health", "--all"]
ENTRYPOINT ["gateway"]
CMD ["run"]
