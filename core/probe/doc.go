// Package probe finds out whether peers answer: which packet to send to which peer
// when, and what an answer, or none, means.
//
// A [Prober] examines each peer once in an interval. An examination begins with a
// small echo. If the peer answers, an echo of the size of the pods' MTU that must
// not be fragmented follows, and then a TCP connection to a port at which no program
// listens, which the peer's kernel refuses. If the peer answers only some of them, the
// unanswered ones indicate the fault; see [Finding].
//
// The package sends nothing itself and reads no clock. Its caller sends the packets
// that [Prober.Due] returns, and passes the answers to [Prober.Answered].
package probe
