// Package cloudtest holds HTTP fakes of the four providers' APIs and metadata
// services, and the cases that each client passes on them.
//
// The fakes follow the providers' public references. They check the signature of
// each request by their own code and the hosts that requests are for, page their
// lists, show changes late, throttle, fail, lose answers and hang, as a test
// asks for. They are no model of prices, regions or anything else that no route
// depends on.
package cloudtest
