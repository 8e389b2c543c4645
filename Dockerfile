# The digest decides; the tag is for readers. `docker buildx imagetools inspect node:24-bookworm-slim` prints a newer one.
FROM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY .ci/build.ts .ci/
COPY src/ src/
RUN npm run build

FROM node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20

# With glibc's default, a process takes 30 MB more.
ENV NODE_ENV=production \
    MALLOC_ARENA_MAX=2
WORKDIR /app

COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev && npm cache clean --force

COPY src/gatehouse.js src/compile-cache.js src/
COPY views/ views/
COPY config/apps.yaml config/gatehouse.yaml.ejs config/
COPY --from=build /build/dist/ dist/

# `docker exec gatehouse gatehouse doctor`
RUN ln --symbolic /app/src/gatehouse.js /usr/local/bin/gatehouse

# Generated secrets and the embedded store. With Redis and configured secrets, it need not be persistent.
RUN install --directory --owner=node --group=node --mode=0700 /data
VOLUME /data

# With compiled code, a start takes a sixth less. Loads all parts but the program, which would run, and the worker, which starts without the cache. Node
# looks it up by user and flags, so both must equal those of CMD. The directory becomes read-only, because the code is executed.
ENV NODE_COMPILE_CACHE=/var/cache/gatehouse
RUN install --directory --owner=node --group=node /var/cache/gatehouse
USER node
RUN ["node", "--max-semi-space-size=4", "--max-old-space-size=768", "--no-allocation-site-pretenuring", "--no-memory-reducer", "--heap-growing-percent=50", "--eval", "for (const part of require('node:fs').globSync('/app/dist/*.js')) if (!/(cli|argument-worker)\\.js$/.test(part)) import(part)"]
USER root
RUN chown --recursive root:root /var/cache/gatehouse && chmod --recursive a=rX /var/cache/gatehouse

# Mount the settings file. These variables take precedence over it.
ENV GATEHOUSE_CONFIG=/etc/gatehouse.yaml \
    GATEHOUSE_DATA_DIR=/data \
    GATEHOUSE_AUTH_LISTEN=0.0.0.0:4000 \
    GATEHOUSE_RESOURCE_LISTEN=0.0.0.0:4001
EXPOSE 4000 4001

USER node

# Every listener of a process serves /livez, and the roles decide which of the three ports are open.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "Promise.any([4000, 4001, 4002].map((port) => fetch(`http://127.0.0.1:${port}/livez`))).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

CMD ["node", "--max-semi-space-size=4", "--max-old-space-size=768", "--no-allocation-site-pretenuring", "--no-memory-reducer", "--heap-growing-percent=50", "src/gatehouse.js", "start"]
