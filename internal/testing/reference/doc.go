// Package reference compares the pages of docs/reference that people write with the source: each name and each number
// on them is one of the source, and none of the source is missing.
//
// It reads the source as text, and knows nothing of what the names mean.
package reference
