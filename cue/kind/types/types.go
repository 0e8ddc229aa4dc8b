// Package types knows what objects of the Kubernetes API consist of: their fields, and what each
// may be. It knows the types that Kubernetes itself serves, and reads those of others from CRDs
// and from OpenAPI documents. It knows no CUE and no cluster.
package types

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Values are kinds of values, as JSON has them.
type Values uint8

// The kinds of values. An integer is also a number.
const (
	Null Values = 1 << iota
	Boolean
	Integer
	Number // that is no integer
	String
	List
	Object
	Bytes // of CUE: JSON has a string in base64 instead

	Any = Null | Boolean | Integer | Number | String | List | Object | Bytes
)

// String lists the kinds of values as CUE calls them, as in "string or int".
func (v Values) String() string {
	if v&Any == Any || v&(Any&^Null) == Any&^Null {
		return "any value"
	}
	if v&(Integer|Number) == Integer|Number {
		return strings.Join(append((v&^(Integer|Number)).names(), "number"), " or ")
	}
	return strings.Join(v.names(), " or ")
}

func (v Values) names() (names []string) {
	for _, one := range []struct {
		values Values
		name   string
	}{{Null, "null"}, {Boolean, "bool"}, {String, "string"}, {Integer, "int"}, {Number, "float"}, {List, "list"},
		{Object, "struct"}, {Bytes, "bytes"}} {
		if v&one.values != 0 {
			names = append(names, one.name)
		}
	}
	return names
}

// Type states what a value may be. It never changes, and may contain itself.
type Type struct {
	// Values are the kinds of values.
	Values Values
	// Fields are the known fields of a struct.
	Fields map[string]*Type
	// Others is the type of all other fields; nil if there are none.
	Others *Type
	// Required are fields that a struct must have.
	Required []string
	// Items is the type of the items of a list; nil if it is not known.
	Items *Type
	// Keys are the fields by which the items of a list are identified.
	Keys []string
	// Enum are the possible strings; nil if there is no such list.
	Enum []string
	// Minimum is the lowest number; nil if it is not known.
	Minimum *float64
	// Maximum is the highest number; nil if it is not known.
	Maximum *float64
	// MinItems is the lowest number of items of a list.
	MinItems int64
	// HasDefault means that a field that is absent gets a value.
	HasDefault bool
	// Base64 means that a string is in base64, so that bytes are one as well.
	Base64 bool
	// Quantity means that a string is a quantity, like 100m or 1Gi.
	Quantity bool
	// Form returns what is wrong with a string; nil if any is right.
	Form func(string) []string
	// KeyForm returns what is wrong with the name of a field; nil if any is right.
	KeyForm func(string) []string
}

// Unknown is the type of values of which nothing is known.
var Unknown = &Type{Values: Any}

func init() { Unknown.Others, Unknown.Items = Unknown, Unknown }

// Of returns the type of values of certain kinds.
func Of(values Values) *Type {
	t := &Type{Values: values}
	if values&Object != 0 {
		t.Others = Unknown
	}
	if values&List != 0 {
		t.Items = Unknown
	}
	return t
}

// Field returns the type of a field of a struct; nil if there is no such field.
func (t *Type) Field(name string) *Type {
	if field := t.Fields[name]; field != nil {
		return field
	}
	return t.Others
}

// Item returns the type of the items of a list.
func (t *Type) Item() *Type {
	if t.Items == nil {
		return Unknown
	}
	return t.Items
}

// PathNamed are kinds whose names may have other letters, such as system:node.
var PathNamed = []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}

// Malformed returns what is wrong with the form of a string; empty if nothing is.
func (t *Type) Malformed(text string) string { return malformed(t.Form, text) }

// MalformedKey returns what is wrong with the name of a field; empty if nothing is.
func (t *Type) MalformedKey(name string) string { return malformed(t.KeyForm, name) }

func malformed(form func(string) []string, text string) string {
	if form == nil {
		return ""
	}
	return strings.Join(form(text), "; ")
}

// podTemplates are where the built-in workloads have their Pod templates.
var podTemplates = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                        {},
	{Kind: "ReplicationController"}:      {"spec", "template"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template"},
	{Group: "apps", Kind: "Deployment"}:  {"spec", "template"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template"},
}

// PodTemplate returns the path of what has the metadata and the spec of Pods in the objects of a type: of a Pod itself,
// it is empty; ok is false if Kubernetes itself makes no Pods of them.
func PodTemplate(of schema.GroupKind) (path []string, ok bool) {
	path, ok = podTemplates[of]
	return path, ok
}
