package install

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
)

// chartFiles are the parts of a chart that are not generated.
//
//go:embed chart
var chartFiles embed.FS

// What stands in the objects for a value of the chart. Each is valid in its place.
const (
	releaseNamespace = "zz-release-namespace"
	eachNamespace    = "zz-each-namespace"
	eachCIDR         = "203.0.113.255/32" // an address of documentation
	valueImage       = "zz-image"
	valuePrefix      = "zz-value-" // and the name of a value that is a part of an object
	extraArgs        = "zz-extra-args"
	podAnnotations   = "zz-pod-annotations"
)

// ChartOptions describe a Helm chart.
type ChartOptions struct {
	// Version is the version of the program; that of the chart follows from it.
	Version string
	// Defaults are the defaults of the chart's values. Its Webhooks are not read.
	Defaults Options
	// Webhooks returns what admission adds to an installation.
	Webhooks func(Options) *Webhooks
	// NoWebhooks makes an installation without webhooks the default.
	NoWebhooks bool
}

// Chart lays an installation of kinds out as a Helm chart: the content of each file under its path. The templates
// are what Parts returns for all values of the options: a line that some installations lack has a condition.
func Chart(kinds []*kind.Kind, o ChartOptions) (map[string][]byte, error) {
	defaults := o.Defaults
	if !o.NoWebhooks {
		defaults.Webhooks = o.Webhooks(defaults)
	}
	if _, err := Parts(kinds, defaults); err != nil { // what follows replaces the defaults by what stands for values
		return nil, err
	}
	c := &chart{kinds: kinds, options: o, dimensions: dimensions(), templates: make(map[string]*template)}
	if err := c.fix(); err != nil {
		return nil, err
	}
	for _, setting := range c.settings() {
		if err := c.add(setting); err != nil {
			return nil, err
		}
	}
	if err := c.addDefinitions(); err != nil {
		return nil, err
	}
	files := map[string][]byte{"templates/validate.yaml": c.validation()}
	for file, t := range c.templates {
		files["templates/"+file] = []byte(TemplateHeader + t.text(c.dimensions))
	}
	return files, c.addStatic(files)
}

// dimension is an option of which values of the chart make the lines of templates depend. A setting has one index for
// each.
type dimension struct {
	// value is an expression of a template.
	value string
	// size is the number of settings: 2 unless it is a number that counts from 1.
	size int
	// only is the setting that the kinds allow, or -1, and why another is an error.
	only int
	why  string
}

// The dimensions, by their places in a setting.
const (
	dimNamespaced = iota
	dimWebhooks
	dimCIDRs
	dimMonitoring
	dimAuth
	dimShards
)

func dimensions() []*dimension {
	return []*dimension{
		{value: ".Values.namespaced", size: 2, only: -1},
		{value: ".Values.webhooks", size: 2, only: -1},
		{value: ".Values.apiServerCIDRs", size: 2, only: -1},
		{value: ".Values.serviceMonitor", size: 2, only: -1},
		{value: ".Values.metricsAuth", size: 2, only: -1},
		{value: "(int .Values.shards)", size: MaxShards, only: -1},
	}
}

// condition is true for some settings of the dimension.
func (d *dimension) condition(settings []int) string {
	first, last := settings[0], settings[len(settings)-1]
	switch {
	case d.size == 2 && first == 1:
		return d.value
	case d.size == 2:
		return "not " + d.value
	case last == d.size-1 && last-first == len(settings)-1:
		return fmt.Sprintf("gt %s %d", d.value, first)
	case first == 0 && last == len(settings)-1:
		return fmt.Sprintf("le %s %d", d.value, last+1)
	}
	var numbers []string
	for _, i := range settings {
		numbers = append(numbers, fmt.Sprint(i+1))
	}
	return fmt.Sprintf("has %s (list %s)", d.value, strings.Join(numbers, " "))
}

// chart collects the objects of all installations.
type chart struct {
	kinds      []*kind.Kind
	options    ChartOptions
	dimensions []*dimension
	templates  map[string]*template
}

// fix finds the settings that the kinds do not allow: a cluster-scoped kind, for example, cannot be limited to
// namespaces.
func (c *chart) fix() error {
	usual := make([]int, len(c.dimensions))
	usual[dimWebhooks] = 1
	if _, err := c.parts(usual); err != nil {
		return err
	}
	for i, setting := range map[int]int{dimNamespaced: 1, dimWebhooks: 0} {
		other := slices.Clone(usual)
		other[i] = setting
		if _, err := c.parts(other); err != nil {
			c.dimensions[i].only, c.dimensions[i].why = usual[i], err.Error()
		}
	}
	return nil
}

// settings returns all combinations of what the kinds allow. The first has most: the lines of the others are among its
// own, and in their places.
func (c *chart) settings() [][]int {
	all := [][]int{nil}
	for _, d := range c.dimensions {
		var longer [][]int
		for _, setting := range all {
			for i := d.size - 1; i >= 0; i-- {
				if d.only < 0 || d.only == i {
					longer = append(longer, append(slices.Clone(setting), i))
				}
			}
		}
		all = longer
	}
	return all
}

// parts returns an installation with what stands for the values of the chart.
func (c *chart) parts(setting []int) ([]Part, error) {
	o := c.options.Defaults
	o.Namespace, o.Image, o.Shards = releaseNamespace, valueImage, setting[dimShards]+1
	o.Monitoring, o.MetricsAuth = setting[dimMonitoring] == 1, setting[dimAuth] == 1
	o.Namespaces, o.APIServers, o.Webhooks = nil, nil, nil
	if setting[dimNamespaced] == 1 {
		o.Namespaces = []string{eachNamespace}
	}
	if setting[dimWebhooks] == 1 {
		o.Webhooks = c.options.Webhooks(o)
		if setting[dimCIDRs] == 1 {
			o.APIServers = []string{eachCIDR}
		}
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return partsWith(nil, c.kinds, o)
}

// addDefinitions adds the CRDs, in which no option shows.
func (c *chart) addDefinitions() error {
	definitions, err := definitionsOf(c.kinds, Options{Namespace: releaseNamespace})
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		object, err := clean(definition)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", fileName(object), err)
		}
		t := newTemplate(object)
		t.merge(slices.Collect(strings.Lines(string(text))))
		c.templates[fileName(object)] = t
	}
	return nil
}

// add merges the objects of an installation into the templates.
func (c *chart) add(setting []int) error {
	parts, err := c.parts(setting)
	if err != nil {
		return err
	}
	for _, object := range Objects(parts) {
		if leftOut(object) {
			continue
		}
		file := strings.Replace(fileName(object), "-"+releaseNamespace, "", 1)
		if object.GetNamespace() == eachNamespace {
			file = strings.Replace(file, ".yaml", "-namespaced.yaml", 1)
		}
		t := c.templates[file]
		if t == nil {
			t = newTemplate(object)
			c.templates[file] = t
		}
		if n := len(t.settings); n > 0 && slices.Equal(t.settings[n-1], setting) {
			return fmt.Errorf("%s: two objects have this file", file)
		}
		makeValues(object, setting[dimShards]+1)
		text, err := textOf(object)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		t.add(string(text), setting)
	}
	return nil
}

// leftOut reports whether a chart lacks an object. Helm creates the namespace of a release itself. The operator creates
// the webhook configurations, and owns all their fields and their label: Helm 4 would report a conflict at each
// upgrade, and would not delete them either.
func leftOut(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Namespace" || object.GroupVersionKind().Group == admissionregistrationv1.GroupName
}

// makeValues replaces what Helm's users expect to set, and numbers of shards.
func makeValues(object *unstructured.Unstructured, shards int) {
	shardValue := valuePrefix + "shards"
	if object.GetKind() == "PrometheusRule" {
		eachText(object.Object, func(text string) string {
			return strings.ReplaceAll(text,
				fmt.Sprintf("fescue_shards_owned{job=\"fescue-metrics\",namespace=%q}) < %d", releaseNamespace, shards),
				fmt.Sprintf("fescue_shards_owned{job=\"fescue-metrics\",namespace=%q}) < %s", releaseNamespace,
					shardValue))
		})
	}
	if object.GetKind() != "Deployment" {
		return
	}
	eachText(object.Object, func(text string) string {
		return strings.Replace(text, fmt.Sprintf("--shards=%d", shards), "--shards="+shardValue, 1)
	})
	spec := object.Object["spec"].(map[string]any)
	spec["replicas"] = valuePrefix + "replicas"
	template := spec["template"].(map[string]any)
	template["metadata"].(map[string]any)["annotations"].(map[string]any)[podAnnotations] = ""
	pod := template["spec"].(map[string]any)
	for _, name := range []string{"nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName"} {
		pod[name] = valuePrefix + name
	}
	container := pod["containers"].([]any)[0].(map[string]any)
	container["resources"] = valuePrefix + "resources"
	container["args"] = append(container["args"].([]any), extraArgs)
}

// eachText replaces the texts in a part of an object.
func eachText(part any, replace func(string) string) any {
	switch part := part.(type) {
	case map[string]any:
		for field, value := range part {
			part[field] = eachText(value, replace)
		}
	case []any:
		for i, value := range part {
			part[i] = eachText(value, replace)
		}
	case string:
		return replace(part)
	}
	return part
}

// validation is a template that rejects the values that the kinds do not allow.
func (c *chart) validation() []byte {
	var text bytes.Buffer
	text.WriteString(TemplateHeader + "{{- /* Values that these kinds do not allow. */}}\n")
	for _, d := range c.dimensions {
		if d.only >= 0 {
			fmt.Fprintf(&text, "{{- if %s }}{{ fail %q }}{{ end }}\n", d.condition([]int{1 - d.only}), d.why)
		}
	}
	return text.Bytes()
}

// addStatic adds the files of a chart that are not generated from objects.
func (c *chart) addStatic(files map[string][]byte) error {
	o := c.options.Defaults
	resources, err := yaml.Marshal(container(o).Resources)
	if err != nil {
		return err
	}
	values := map[string]any{
		"IMAGE": o.Image, "NAMESPACED": append([]string{}, o.Namespaces...), "SHARDS": max(1, o.Shards),
		"WEBHOOKS":       !c.options.NoWebhooks,
		"APISERVERCIDRS": append([]string{}, o.APIServers...), "SERVICEMONITOR": o.Monitoring,
		"METRICSAUTH": o.MetricsAuth,
	}
	for _, file := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "NOTES.txt"} {
		content, err := chartFiles.ReadFile("chart/" + file)
		if err != nil {
			return err
		}
		text := string(content)
		switch file {
		case "NOTES.txt":
			file = path.Join("templates", file)
		case "Chart.yaml":
			text = strings.Replace(text, "APPVERSION", fmt.Sprintf("%q", c.options.Version), 1)
			text = strings.Replace(text, "VERSION", chartVersion(c.options.Version), 1)
		case "values.yaml":
			for _, name := range slices.Sorted(maps.Keys(values)) {
				value, err := json.Marshal(values[name]) // which is YAML too, on one line
				if err != nil {
					return err
				}
				text = strings.Replace(text, " "+name+"\n", " "+string(value)+"\n", 1)
			}
			text = strings.Replace(text, "RESOURCES\n", indent(string(resources), "  "), 1)
		}
		files[file] = []byte(text)
	}
	return nil
}

func indent(text, by string) string {
	return regexp.MustCompile("(?m)^(.)").ReplaceAllString(text, by+"$1")
}

// semantic is what Helm takes as a version.
var semantic = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)$`)

// chartVersion returns the semantic version of a chart for a version of the program, which can be a commit.
func chartVersion(version string) string {
	if match := semantic.FindStringSubmatch(version); match != nil {
		return match[1]
	}
	return "0.0.0-x" + regexp.MustCompile("[^0-9A-Za-z-]").ReplaceAllString(version, "-")
}
