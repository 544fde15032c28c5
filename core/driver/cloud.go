package driver

// CloudFacts describe a cloud provider's tables besides their entries.
//
// The lane that reports them holds cloud routes only. It returns the routes of the tables
// that the extent's Provider names, or that the provider uses for this instance. Create
// returns once the route is in force or its context has ended, and Delete compares what it
// can, so that it deletes no route that another instance has made meanwhile.
type CloudFacts struct {
	Tables []string // ids, in order
	// Unprepared says why a setting of the instance could not be made without which it may
	// not forward packets; "" if it was made, or none is needed.
	Unprepared string
}
