// Package bench compares Fescue with what people would use instead of it. It is a module of
// its own, so that Fescue does not depend on that.
package bench
