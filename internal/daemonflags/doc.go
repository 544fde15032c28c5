// Package daemonflags defines the flags that flanneld and flannelctl share: those of the
// datastore. Both programs read them from the environment, too, and no output of theirs
// shows a credential.
package daemonflags
