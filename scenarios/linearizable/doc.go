// Package linearizable checks that lease stores are linearizable: one order of all
// requests explains every answer, and each request takes effect at one moment
// between its call and its return.
//
// [Model] is a lease store without network, clients or concurrency. A request
// without an answer has an unknown outcome: it may take effect at any later time,
// or never. A lease without a renewal may end once its time to live is over, and
// not before. The model judges each key alone, and a move at both of its keys. A
// [History] records calls and returns; porcupine searches for an order.
package linearizable
