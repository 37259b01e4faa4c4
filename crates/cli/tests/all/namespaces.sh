#!/usr/bin/env bash
# A switch between two network namespaces: a storage node in one, the demo with its four nodes in
# the other, joined by veth pairs. RoCE travels on AF_PACKET sockets (LINK packet) or in VXLAN (LINK
# udp). A third namespace is a foreign host: no process of the rack runs there, only Linux's own
# network stack, at the end of its veth pair or above its own vxlan device. Called in a fresh
# network namespace, with the command and a folder:
#     unshare [--user --map-root-user] --net -- namespaces.sh RACKWEAVE FOLDER LINK
# Exit status 77 says that something is not permitted here.
set -euo pipefail
rackweave=$1 folder=$2 link=$3

trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true' EXIT
not_permitted() { echo "not permitted: $1"; exit 77; }

ip link set lo up || not_permitted "ip link"

# A namespace lives as long as a process in it, whose number is in `pid` afterwards.
namespace() {
    unshare --net -- sleep 300 & pid=$!
    # The new namespace is there when the process has another one than this shell.
    for _ in $(seq 100); do
        [ "$(readlink "/proc/$pid/ns/net" 2>/dev/null)" = "$(readlink /proc/self/ns/net)" ] || break
        sleep 0.02
    done
    nsenter --target "$pid" --net -- ip link set lo up
}
cable() { # NODE SUBNET INTERFACE
    ip link add "to-$1" type veth peer name "$3" netns "$pid" || not_permitted "veth"
    ip address add "192.168.$2.1/30" dev "to-$1"
    ip link set "to-$1" up
    nsenter --target "$pid" --net -- ip address add "192.168.$2.2/30" dev "$3"
    nsenter --target "$pid" --net -- ip link set "$3" up
    nsenter --target "$pid" --net -- ip route add default via "192.168.$2.1" metric "$2"
}
node() { # NAME ROLE INTERFACE
    printf '[[node]]\nname = "%s"\nrole = "%s"\ninterface = "%s"\nswitch_interface = "to-%s"\n' \
        "$1" "$2" "$3" "$1"
}
host() {
    printf '[[host]]\nname = "linux0"\nmac = "52:54:00:00:00:01"\nip = "10.77.1.1"\n'
    case $link in
    packet) printf 'switch_interface = "to-linux0"\n' ;;
    udp) printf 'udp = "192.168.90.2:4789"\nauthenticate = false\n' ;;
    esac
}
rack() { # CONTROL
    cat <<TOML
[hosted]
control = "$1:7471"
listen = "0.0.0.0:7471"
directory = "run"
link = "$link"
udp = "192.168.77.1:4789"

$(node store storage rdma0)
$(for at in 0 1 2 3; do node "query$at" compute "rdma$at"; done)

$(host)

[[store]]
name = "pages"
node = "store"
bytes = 134217728

[switch]
budget = "software"
lanes = 8192
page_entries = 2048
page_workers = 64
page_slots = 1024
sequencers = 16
index_servers = 8
index_queries = 256
index_fat_ranges = 1024
index_nodes = 4096
index_layers = 2
TOML
}

rack 127.0.0.1 > "$folder/rack.toml"
rack 192.168.78.1 > "$folder/far.toml"
"$rackweave" keygen --config "$folder/rack.toml"
namespace
cable store 77 rdma0
nsenter --target "$pid" --net -- "$rackweave" node store --config "$folder/rack.toml" \
    --controller 192.168.77.1:7471 &
namespace
foreign=$pid
in_host() { nsenter --target "$foreign" --net -- "$@"; }
cable linux0 90 eth0
case $link in
packet) device=eth0 ;;
udp)
    device=vxlan0
    in_host ip link add "$device" type vxlan id 7471 remote 192.168.77.1 dstport 4789 dev eth0 ||
        not_permitted "vxlan"
    ;;
esac
in_host ip link set "$device" address 52:54:00:00:00:01
in_host ip address add 10.77.1.1/16 dev "$device"
in_host ip link set "$device" up
namespace
for at in 0 1 2 3; do cable "query$at" $((78 + at)) "rdma$at"; done
"$rackweave" switch --config "$folder/rack.toml" &
# Its exit status says that the demo's nodes are missing.
until "$rackweave" info --config "$folder/rack.toml" >"$folder/info.txt" 2>&1 ||
    grep -q ' store .* yes ' "$folder/info.txt"; do sleep 0.1; done
cat "$folder/info.txt" >&2
nsenter --target "$pid" --net -- "$rackweave" demo --config "$folder/far.toml" \
    --as query0,query1,query2,query3 --scale-factor 0.01 --format json
# Linux asks for the Ethernet address of the switch, as it does for a node's; the switch answers.
asks() { in_host bash -c 'echo >/dev/udp/10.77.255.254/9; ip neighbour show 10.77.255.254'; }
until asks | tee "$folder/neighbour.txt" | grep -q ' lladdr 02:00:00:00:ff:00 '; do sleep 0.1; done
sed 's/^/foreign host: /' "$folder/neighbour.txt" >&2
