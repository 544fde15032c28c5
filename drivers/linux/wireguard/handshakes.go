package wireguard

import "golang.zx2c4.com/wireguard/device"

// workerStarts is the library's message when a goroutine starts in which it processes handshakes,
// with the number of the goroutine, from 1.
const workerStarts = "Routine: handshake worker %d - started"

// oneWorker makes the library process one handshake at a time: of its goroutines for them, one for
// each processor, all but the first wait in the logger until the device has ended. The library has no
// option for their number.
//
// Two hosts that ask each other for a session at once get a request and an answer from the same peer
// at nearly the same time. Of two goroutines, one finds that the answer belongs to the host's own request;
// then the other one takes the peer's request, which replaces the own one; then the first goes on
// without looking again (ConsumeMessageResponse; Linux does look again, in
// wg_noise_handshake_consume_response). Both hosts count that handshake as done, but the peer's packets name
// a session that this host does not have. They are lost until the next handshake, 15 seconds later.
func oneWorker(logger *device.Logger, ended <-chan struct{}) *device.Logger {
	tell := logger.Verbosef
	logger.Verbosef = func(format string, args ...any) {
		if format == workerStarts && args[0] != 1 {
			<-ended
			return
		}
		tell(format, args...)
	}
	return logger
}
