package install

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// template is the text of one object in all installations.
type template struct {
	// condition limits the whole object by a value that is none of the options; "" is always.
	condition string
	// isClusterRole means that it is one, and each that there is one for each namespace.
	isClusterRole, each bool
	lines               []line
	seen                map[string][]int // places in lines of a text
	settings            [][]int
}

// line is a line of an object, and which settings have it.
type line struct {
	text     string
	settings [][]int
}

func newTemplate(object *unstructured.Unstructured) *template {
	t := &template{seen: make(map[string][]int), isClusterRole: object.GetKind() == "ClusterRole",
		each: object.GetNamespace() == eachNamespace}
	switch {
	case object.GetKind() == "CustomResourceDefinition":
		t.condition = ".Values.crds"
	case IsUserRole(object):
		t.condition = ".Values.userRoles"
	}
	return t
}

// add merges the text of the object in one more installation: lines that are there already get the setting, others are
// inserted. So each installation finds its own lines, and in its own order, whatever the others have.
func (t *template) add(text string, setting []int) {
	places, ok := t.seen[text]
	if !ok {
		places = t.merge(t.split(text))
		t.seen[text] = places
	}
	for _, i := range places {
		t.lines[i].settings = append(t.lines[i].settings, setting)
	}
	t.settings = append(t.settings, setting)
}

// split returns the lines of a text. The rules of a ClusterRole stay whole: many of their lines are equal.
func (t *template) split(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	if !t.isClusterRole {
		return lines
	}
	var whole []string
	for _, l := range lines {
		if last := len(whole) - 1; last >= 0 && strings.HasPrefix(whole[last], "- ") && !strings.HasPrefix(l, "- ") {
			whole[last] += l
			continue
		}
		whole = append(whole, l)
	}
	return whole
}

// merge inserts the lines that are missing, and returns the places of all.
func (t *template) merge(added []string) []int {
	common := longestCommon(t.lines, added)
	var merged []line
	moved := make([]int, len(t.lines))
	places := make([]int, len(added))
	i := 0
	keep := func(until int) {
		for ; i < until; i++ {
			moved[i] = len(merged)
			merged = append(merged, t.lines[i])
		}
	}
	for j, text := range added {
		if at, ok := common[j]; ok {
			keep(at + 1)
			places[j] = moved[at]
			continue
		}
		places[j] = len(merged)
		merged = append(merged, line{text: text})
	}
	keep(len(t.lines))
	t.lines = merged
	for _, of := range t.seen {
		for k := range of {
			of[k] = moved[of[k]]
		}
	}
	return places
}

// longestCommon returns the places of the lines that both have, in the longest sequence that both have.
func longestCommon(lines []line, added []string) map[int]int {
	lengths := make([][]int, len(lines)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(added)+1)
	}
	for i, l := range slices.Backward(lines) {
		for j, text := range slices.Backward(added) {
			lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			if l.text == text {
				lengths[i][j] = 1 + lengths[i+1][j+1]
			}
		}
	}
	common := make(map[int]int)
	for i, j := 0, 0; i < len(lines) && j < len(added); {
		switch {
		case lines[i].text == added[j]:
			common[j] = i
			i, j = i+1, j+1
		case lengths[i+1][j] >= lengths[i][j+1]:
			i++
		default:
			j++
		}
	}
	return common
}

// text returns the template.
func (t *template) text(dimensions []*dimension) string {
	var out strings.Builder
	conditions := []string{t.condition, condition(dimensions, t.settings)}
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
	if len(conditions) > 0 {
		fmt.Fprintf(&out, "{{- if %s }}\n", and(conditions))
	}
	if t.each {
		out.WriteString("{{- range (.Values.namespaced | uniq | sortAlpha) }}\n---\n")
	}
	open := ""
	for _, l := range expand(t.lines) {
		needs := ""
		if len(l.settings) < len(t.settings) {
			needs = condition(dimensions, l.settings)
		}
		if needs != open && open != "" {
			out.WriteString("{{- end }}\n")
		}
		if needs != open && needs != "" {
			fmt.Fprintf(&out, "{{- if %s }}\n", needs)
		}
		open = needs
		out.WriteString(l.text)
	}
	if open != "" {
		out.WriteString("{{- end }}\n")
	}
	if t.each {
		out.WriteString("{{- end }}\n")
	}
	if len(conditions) > 0 {
		out.WriteString("{{- end }}\n")
	}
	if t.each { // in a range, the values are those of the whole
		return strings.NewReplacer("{{ .Release", "{{ $.Release", " .Values", " $.Values").Replace(out.String())
	}
	return out.String()
}

func and(conditions []string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "and " + parenthesized(conditions)
}

func parenthesized(conditions []string) string {
	var list []string
	for _, c := range conditions {
		if strings.Contains(c, " ") && !strings.HasPrefix(c, "(") {
			c = "(" + c + ")"
		}
		list = append(list, c)
	}
	return strings.Join(list, " ")
}

// condition is true for these settings and no others; "" is always.
func condition(dimensions []*dimension, settings [][]int) string {
	if len(settings) == 0 { // a CRD
		return ""
	}
	var all []string
	product := 1
	has := make([][]int, len(dimensions))
	for i := range dimensions {
		for _, setting := range settings {
			has[i] = append(has[i], setting[i])
		}
		slices.Sort(has[i])
		has[i] = slices.Compact(has[i])
		product *= len(has[i])
	}
	if product == len(settings) {
		for i, d := range dimensions {
			if d.only < 0 && len(has[i]) < d.size {
				all = append(all, d.condition(has[i]))
			}
		}
		if len(all) == 0 {
			return ""
		}
		return and(all)
	}
	return alternatives(dimensions, settings, has)
}

// alternatives is condition for settings that no conjunction has: it tells them apart by one dimension.
func alternatives(dimensions []*dimension, settings [][]int, has [][]int) string {
	for i := range dimensions {
		byRest := make(map[string][]int) // which settings of the dimension have the same others
		rest := make(map[string][][]int)
		for _, value := range has[i] {
			var with [][]int
			var others []string
			for _, setting := range settings {
				if setting[i] == value {
					with = append(with, setting)
					others = append(others, fmt.Sprint(setting[:i], setting[i+1:]))
				}
			}
			slices.Sort(others)
			key := strings.Join(others, ";")
			byRest[key] = append(byRest[key], value)
			rest[key] = append(rest[key], with...)
		}
		if len(byRest) == 1 {
			continue
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(byRest)) {
			all = append(all, condition(dimensions, rest[key]))
		}
		return "or " + parenthesized(all)
	}
	panic("settings that differ in no dimension") // they would be a product
}

// What stands for a value: alone in its place, or as a part of a text.
var (
	isWhole = regexp.MustCompile(`^( *(?:- )?(?:[A-Za-z]+: )?)(` + releaseNamespace + `|` + eachNamespace + `|` +
		eachCIDR + `|` + valueImage + `)\n$`)
	isObject = regexp.MustCompile(`^( *)([A-Za-z]+): ` + valuePrefix + `([A-Za-z]+)\n$`)
)

// expand replaces what stands for values by the expressions of Helm.
func expand(lines []line) []line {
	has := func(part string) bool {
		return slices.ContainsFunc(lines, func(l line) bool { return strings.Contains(l.text, part) })
	}
	each, cidrs := has("namespace: "+eachNamespace+"\n"), has("cidr: "+eachCIDR+"\n")
	var expanded []line
	for _, l := range lines {
		for text := range strings.Lines(l.text) {
			text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
			if cidrs && strings.TrimSpace(text) == "- ipBlock:" {
				text = "{{- range .Values.apiServerCIDRs }}\n" + text
			} else {
				text = expandValue(text, each)
			}
			expanded = append(expanded, line{text, l.settings})
		}
	}
	return expanded
}

func expandValue(text string, each bool) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if match := isObject.FindStringSubmatch(text); match != nil {
		switch match[3] {
		case "replicas":
			return match[1] + "replicas: {{ max 2 (int .Values.shards) }}\n"
		case "priorityClassName":
			return "{{- with .Values.priorityClassName }}\n" + indent +
				"priorityClassName: {{ . | quote }}\n{{- end }}\n"
		}
		return fmt.Sprintf("{{- with .Values.%s }}\n%s%s:\n{{ toYaml . | indent %d }}\n{{- end }}\n", match[3], indent,
			match[2], len(indent)+2)
	}
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "- "+extraArgs:
		return "{{- range .Values.extraArgs }}\n" + indent + "- {{ . | quote }}\n{{- end }}\n"
	case trimmed == podAnnotations+`: ""`:
		return fmt.Sprintf("{{- with .Values.podAnnotations }}\n{{ toYaml . | indent %d }}\n{{- end }}\n", len(indent))
	case trimmed == "- "+eachNamespace:
		return "{{- range (.Values.namespaced | uniq | sortAlpha) }}\n" + indent + "- {{ . | quote }}\n{{- end }}\n"
	case trimmed == "cidr: "+eachCIDR:
		return indent + "cidr: {{ . | quote }}\n{{- end }}\n"
	case strings.Contains(trimmed, namespacesFlag+eachNamespace):
		return strings.Replace(text, eachNamespace, `{{ .Values.namespaced | uniq | sortAlpha | join "," }}`, 1)
	}
	value := map[string]string{releaseNamespace: "{{ .Release.Namespace }}", valueImage: "{{ .Values.image }}"}
	if each {
		value[eachNamespace] = "{{ . }}"
	}
	if match := isWhole.FindStringSubmatch(text); match != nil && value[match[2]] != "" {
		return match[1] + strings.Replace(value[match[2]], " }}", " | quote }}", 1) + "\n"
	}
	for marker, expression := range value {
		text = strings.ReplaceAll(text, marker, expression)
	}
	return strings.ReplaceAll(text, valuePrefix+"shards", "{{ int .Values.shards }}")
}
