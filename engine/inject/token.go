package inject

import "strings"

const (
	// tokenPath is where the API server's ServiceAccount admission mounts a token into
	// each container that has nothing there, and tokenVolume how the volume that it adds
	// is called at the beginning (plugin/pkg/admission/serviceaccount in Kubernetes).
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume = "kube-api-access-"
)

// tokenMount is the mount of the Pod's token, as its containers have it when they come to
// a webhook; nil if they have none. Our containers get the same. The API server would add
// it, and then ask all webhooks again, since the Pod has changed: that is most of what an
// injection costs whoever creates a Pod.
func tokenMount(pod value) []byte {
	for _, container := range pod.Member("spec").Member("containers").Items {
		for _, mount := range container.Member("volumeMounts").Items {
			if mount.Member("mountPath").Equals(tokenPath) && strings.HasPrefix(mount.Member("name").String(), tokenVolume) {
				return mount.Raw()
			}
		}
	}
	return nil
}

// text is an item of a list as it is added.
func (m *merger) text(item value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return item.Raw()
	}
	return m.appendContainer(nil, item)
}

// wholeList is a list whose items are all added.
func (m *merger) wholeList(list value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return list.Raw()
	}
	text := make([]byte, 0, len(list.Raw())+len(m.token)+len(`,"volumeMounts":[]`))
	text = append(text, '[')
	for i, item := range list.Items {
		if i > 0 {
			text = append(text, ',')
		}
		text = m.appendContainer(text, item)
	}
	return append(text, ']')
}

// appendContainer appends a container with the mount of the token.
func (m *merger) appendContainer(to []byte, container value) []byte {
	mounts := container.Member("volumeMounts")
	hasOwn := mounts.Exists() && !mounts.Is('[') // null, or nothing that has items
	for _, mount := range mounts.Items {
		hasOwn = hasOwn || mount.Member("mountPath").Equals(tokenPath)
	}
	text := container.Raw()
	if hasOwn || !container.Is('{') {
		return append(to, text...)
	}
	inside := container
	if mounts.Is('[') {
		inside = mounts
	}
	end := inside.End() - 1 - container.Start()
	to = append(to, text[:end]...)
	if !inside.IsEmpty() {
		to = append(to, ',')
	}
	if mounts.Is('[') {
		to = append(to, m.token...)
	} else {
		to = append(to, `"volumeMounts":[`...)
		to = append(to, m.token...)
		to = append(to, ']')
	}
	return append(to, text[end:]...)
}
