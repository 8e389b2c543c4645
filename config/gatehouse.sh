#!/bin/sh
# The command `gatehouse` on a host with gatehouse.service: with the settings of the service, and as its user. Install it as
# /usr/local/bin/gatehouse.
set -eu

if [ "$(id -u)" = 0 ]; then
  exec setpriv --reuid=gatehouse --regid=gatehouse --init-groups -- "$0" "$@"
fi

if [ -r /etc/gatehouse/environment ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in [A-Za-z_]*=*) export "${line?}" ;; esac
  done </etc/gatehouse/environment
fi
export NODE_ENV="${NODE_ENV:-production}"
export GATEHOUSE_CONFIG="${GATEHOUSE_CONFIG:-/etc/gatehouse/gatehouse.yaml}"
export GATEHOUSE_DATA_DIR="${GATEHOUSE_DATA_DIR:-/var/lib/gatehouse}"
exec /usr/bin/node /opt/gatehouse/node_modules/gatehouse/src/gatehouse.js "$@"
