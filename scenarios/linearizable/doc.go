// Package linearizable checks what lease stores promise each of their clients
// together: that every answer can be explained by one order of all requests,
// each taking effect at one moment between its call and its return.
//
// [Model] is a lease store without network, clients or concurrency. A request
// that got no answer has an unknown outcome: it may take effect at any later
// time, or never. A lease that is not renewed may end once its time to live is
// over, and not before. A [History] records calls and returns; porcupine looks
// for an order.
package linearizable
