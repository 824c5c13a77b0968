package pgtest

// MakeTemplate is what every test process does on a common cluster.
var MakeTemplate = makeTemplate
