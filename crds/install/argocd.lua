-- The rules of kstatus, by which Flux and Helm 4 wait. Argo CD itself reports objects that are being deleted.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "generation " .. obj.metadata.generation .. " is not reconciled yet"}
end
local health = {status = "Healthy"}
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Stalled" and condition.status == "True" then
    return {status = "Degraded", message = condition.message}
  end
  if condition.type == "Reconciling" and condition.status == "True" or condition.type == "Ready" and condition.status ~= "True" then
    health = {status = "Progressing", message = condition.message}
  end
end
return health
