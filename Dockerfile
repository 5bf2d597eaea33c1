# docker build -t parley .
# docker run -v parley:/data -e TELEGRAM_TOKEN -e OPENAI_API_KEY --stop-timeout 30 parley
#
# /data holds the database, http-token and, if there is one, config.toml. To reach
# the pages from outside of the container, set listen = "0.0.0.0:8787" in the
# section [http], add -p 127.0.0.1:8787:8787, and sign in with the link of
#   docker exec CONTAINER gateway token link
#
# The stop timeout is longer than agent.drain_timeout, so that answers under way
# are delivered. A copy of the database, while it runs:
#   docker exec CONTAINER gateway backup /data/copy.db

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
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["gateway", "health"]
ENTRYPOINT ["gateway"]
CMD ["run"]
