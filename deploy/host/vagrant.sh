#!/bin/sh
# Sets up a machine of the Vagrantfile: installs the package /tmp/flannel.deb and starts its
# flanneld with SETTINGS, variables as in /etc/flannel/flanneld.env, and a certificate for the etcd.
set -eu

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --reinstall --allow-downgrades /tmp/flannel.deb
install -m 600 /tmp/etcd.pem /tmp/etcd-key.pem /etc/flannel/

# A bridge with the subnet's first address stands in for pods.
cat >/usr/local/sbin/flannel-bridge <<'SCRIPT'
#!/bin/sh
set -eu
. /run/flannel/subnet.env
ip link show cni0 >/dev/null 2>&1 || ip link add cni0 type bridge
ip address flush dev cni0
ip address add "$FLANNEL_SUBNET" dev cni0
ip link set cni0 mtu "$FLANNEL_MTU" up
SCRIPT
chmod 755 /usr/local/sbin/flannel-bridge

mkdir -p /etc/systemd/system/flanneld.service.d
cat >/etc/systemd/system/flanneld.service.d/vagrant.conf <<UNIT
[Service]
Environment=$SETTINGS
ExecStartPost=/usr/local/sbin/flannel-bridge
UNIT
systemctl daemon-reload
systemctl enable flanneld
systemctl restart flanneld
