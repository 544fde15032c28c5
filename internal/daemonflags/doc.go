// Package daemonflags defines the flags of flanneld that flannelctl has as well: the
// datastore's. Both read them from the environment, too, and no output of either
// shows a credential in them.
package daemonflags
