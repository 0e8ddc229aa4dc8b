package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const located = `metadata:
  labels:
    app.kubernetes.io/name: x
    a: {b: 1}
    a.b: 2
    a.b.c: NO
    "": e
    x[0]: f
    on: g
spec:
  list:
  - name: p
  - - q
    - r
  base: &base
    image: i
    env: {k: v}
  merged:
    <<: *base
    env: {k: w}
  both: {<<: [{x: 1}, {x: 2, z: 3}]}
  late: {x: 1, <<: {x: 2}}
  alias: *base
  "null":
  twice: 1
  twice: 2
`

func TestLocate(t *testing.T) {
	t.Parallel()
	objects, _ := Read("f", []byte(located))
	for path, want := range map[string]struct{ key, value string }{
		"metadata":                                {"1:1", "2:3"},
		"metadata.labels.app.kubernetes.io/name":  {"3:5", "3:29"},
		"metadata.labels[app.kubernetes.io/name]": {"3:5", "3:29"},
		"metadata.labels.a":                       {"4:5", "4:8"},
		"metadata.labels.a.b":                     {"5:5", "5:10"},
		"metadata.labels.a.b.c":                   {"6:5", "6:12"},
		"metadata.labels[]":                       {"7:5", "7:9"},
		"metadata.labels.x[0]":                    {"8:5", "8:11"},
		"metadata.labels.true":                    {"9:5", "9:9"},
		"spec.list[0].name":                       {"12:5", "12:11"},
		"spec.list[1]":                            {"13:5", "13:5"},
		"spec.list[1][1]":                         {"14:7", "14:7"},
		"spec.merged.image":                       {"16:5", "16:12"},
		"spec.merged.env.k":                       {"20:11", "20:14"},
		"spec.both.x":                             {"21:16", "21:19"},
		"spec.both.z":                             {"21:30", "21:33"},
		"spec.late.x":                             {"22:21", "22:24"}, // as the API machinery reads it
		"spec.alias":                              {"23:3", "23:10"},
		"spec.alias.env.k":                        {"17:11", "17:14"},
		"spec.twice":                              {"26:3", "26:10"},
	} {
		l := objects[0].Locate(path)
		require.True(t, l.Found, path)
		require.Equal(t, "f:"+want.key, l.Key.String(), path)
		require.Equal(t, "f:"+want.value, l.Value.String(), path)
	}
}

func TestLocateWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	objects, _ := Read("f", []byte(located))
	for path, want := range map[string]string{
		"":                                "1:1",
		"<nil>":                           "1:1",
		"status.phase":                    "1:1",
		"metadatas":                       "1:1",
		"metadata.name":                   "2:3",
		"spec.list[0].names":              "12:5",
		"spec.list[2].name":               "12:3",
		"spec.list[99999999999999999999]": "12:3",
		"metadata.labels.a.c":             "4:8",
		"metadata.labels.a.b.d":           "5:10",
		"spec.merged.none":                "19:5",
		"spec.base.image.x":               "16:12",
	} {
		l := objects[0].Locate(path)
		require.Equal(t, path == "", l.Found, path)
		require.Equal(t, "f:"+want, l.Value.String(), path)
	}
}

func TestSurprises(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"NO":      "the plain NO for the boolean false: quote it",
		"y":       "the plain y for the boolean true: quote it",
		"On":      "the plain On for the boolean true: quote it",
		"0777":    "the plain 0777 for the number 511: quote it, or write 511",
		"1_000":   "the plain 1_000 for the number 1000: quote it, or write 1000",
		"-0b11":   "the plain -0b11 for the number -3: quote it, or write -3",
		"1_0.5":   "the plain 1_0.5 for the number 10.5: quote it, or write 10.5",
		"true":    "",
		"FALSE":   "",
		"0":       "",
		"-12":     "",
		"1.50":    "",
		"1e3":     "",
		"0x1F":    "",
		"0o17":    "",
		"~":       "",
		"tRue":    "",
		"1:30":    "",
		"'NO'":    "",
		"!!str n": "",
		"[NO]":    "",
	} {
		objects, errs := Read("f", []byte("a: &a "+text+"\nb: *a\n"))
		require.Empty(t, errs, text)
		if want != "" {
			want = "YAML 1.1, which Kubernetes reads, takes " + want
		}
		require.Equal(t, want, objects[0].Locate("a").Value.Surprise, text)
		require.Equal(t, want, objects[0].Locate("b").Value.Surprise, text)
	}
	objects, _ := Read("f", []byte("on: x\n"))
	require.Contains(t, objects[0].Locate("true").Key.Surprise, "the plain on for the boolean true")
}
