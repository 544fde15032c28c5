package main

import "flag"

func (o *options) defineTrust(fs *flag.FlagSet) {
	fs.BoolVar(&o.allowExtension, "allow-extension", false, "take a network config with backend extension, whose "+
		"commands run as root, also from a datastore that any program may write: one that asks for no client certificate "+
		"and no password")
}

// trustsConfig reports whether the writers of the network config may run commands on this host: the backend
// extension gives them that right. The operator writes a file, and what only holders of a credential can
// write; for any other datastore the administrator of the host has to say so.
func (o *options) trustsConfig() bool {
	switch {
	case o.allowExtension, o.kube.On, o.embedEtcd.dir != "":
		return true
	case o.servers.Servers != "":
		return o.servers.Protected()
	}
	return o.etcd.Protected()
}
