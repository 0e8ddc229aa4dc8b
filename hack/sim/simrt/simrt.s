// The runtime has the bodies of start and stop.
