using Workerd = import "/workerd/workerd.capnp";
# bench gives the address of "http" and the folder of "disk".
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .mainWorker),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "main")],
);
const mainWorker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Bench", uniqueKey = "greenroom-bench", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "BENCH", durableObjectNamespace = "Bench")],
);
