#!/usr/bin/env bash
# A switch between two network namespaces, a node in each, joined by veth pairs. RoCE travels on
# AF_PACKET sockets (LINK packet) or in VXLAN (LINK udp). Called in a fresh network namespace, with
# the command and a folder:
#     unshare [--user --map-root-user] --net -- namespaces.sh RACKWEAVE FOLDER LINK
# Exit status 77 says that something is not permitted here.
set -euo pipefail
rackweave=$1 folder=$2 link=$3

trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true' EXIT
not_permitted() { echo "not permitted: $1"; exit 77; }

ip link set lo up || not_permitted "ip link"

# A namespace lives as long as a process in it.
join() { # NODE SUBNET
    unshare --net -- sleep 300 & local pid=$!
    # The new namespace is there when the process has another one than this shell.
    for _ in $(seq 100); do
        [ "$(readlink "/proc/$pid/ns/net" 2>/dev/null)" = "$(readlink /proc/self/ns/net)" ] || break
        sleep 0.02
    done
    ip link add "to-$1" type veth peer name rdma0 netns "$pid" || not_permitted "veth"
    ip address add "192.168.$2.1/30" dev "to-$1"
    ip link set "to-$1" up
    nsenter --target "$pid" --net -- ip link set lo up
    nsenter --target "$pid" --net -- ip address add "192.168.$2.2/30" dev rdma0
    nsenter --target "$pid" --net -- ip link set rdma0 up
    nsenter --target "$pid" --net -- ip route add default via "192.168.$2.1"
    nsenter --target "$pid" --net -- "$rackweave" node "$1" --config "$folder/rack.toml" \
        --controller "192.168.$2.1:7471" &
}

cat > "$folder/rack.toml" <<TOML
[hosted]
control = "127.0.0.1:7471"
listen = "0.0.0.0:7471"
directory = "run"
link = "$link"
udp = "192.168.77.1:4789"

[[node]]
name = "store"
role = "storage"
interface = "rdma0"
switch_interface = "to-store"

[[node]]
name = "query"
role = "compute"
interface = "rdma0"
switch_interface = "to-query"
TOML

"$rackweave" keygen --config "$folder/rack.toml"
join store 77
join query 78
"$rackweave" switch --config "$folder/rack.toml" &
# Its exit status says whether all have joined.
until "$rackweave" info --config "$folder/rack.toml" >"$folder/info.txt" 2>&1; do sleep 0.1; done
cat "$folder/info.txt" >&2
"$rackweave" demo --config "$folder/rack.toml" --scale-factor 0.01 --format json
