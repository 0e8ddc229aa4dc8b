// Package schema is the intermediate form of a kind's schema: what CUE requires of an
// object, as data. From it come the validator, the defaults, the CRD's OpenAPI schema with its
// CEL rules, and the list of who enforces what. It knows JSON values and the API
// machinery's types, and places in CUE files: package compile reads CUE into it.
package schema
