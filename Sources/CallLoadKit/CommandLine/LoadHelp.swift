import CallHostile

enum LoadHelp {
  static var text: String {
    """
    Without --edge it starts a cluster of its own on this machine (one nats-server, coordinators \
    and edges, each a process, on loopback), and stops it at the end. Every device is a real \
    client with a connection of its own. Calls arrive at a fixed rate whatever the cluster does, \
    and latencies count from when a call should have been placed.

    EXAMPLES
      callload --devices 100 --duration 5s
          A first look: a small cluster, a few seconds.
      callload --devices 10000
          10,000 devices of 3,334 users, 200 calls a second for 30 seconds.
      callload --devices 10000 --rate 500 --duration 2m --json run.json
          Longer and harder, with the figures in a file.
      callload --devices 3000 --find-max
          The highest rate that this machine holds.
      callload --devices 1000 --scenario answered --protocol json --seed 7
          Answered calls only, in JSON, and the same ones every time.
      callload --devices 300 --rate 20 --chaos kill-coordinator=5s,kill-edge=7s
          Processes of the cluster are killed while it works, and come back.
      callload --devices 300 --rate 20 --duration 1m --nats-servers 3 --chaos all --seed 7
          Every fault there is, on a replicated store, the same ones every time.
      callload --devices 3000 --sleeping 40%
          Four of ten devices have no session; the cluster must wake them.
      callload --devices 3000 --scenario answered --webhooks --history
          The app's server and its users' histories must say what the devices were told.
      callload --devices 3000 --hook --ongoing
          The app's server decides about each call, and all devices see their users' calls.
      callload --devices 1000 --rate 50 --duration 10s --hostile each,all
          Attackers beside the load: one attack after the other, then all together.
      callload --devices 3000 --nodes 2
          Nodes that are an edge and a coordinator in one process.
      callload --devices 10000 --chaos kill-all-edges --duration 1m --json run.json
          All devices lose their edges at once; loadtest/plot.py run.svg run.json draws what calls notice of it.
      callload --devices 10000 --tls
          The same over wss://, with a certificate that the devices verify.
      callload --devices 3000 --edge ws://edge-1:8080 --edge ws://edge-2:8080 \\
               --keys keys.json --app demo
          A cluster that is already there.

    MANY DEVICES
      A callload has one thread, and each device is a file of its process. Several callloads share a run: \
    each gets the same command line, --slice 1/3, 2/3 or 3/3, the same --seed, and a file with --json. Each \
    has its own users, who call each other. callload merge adds the reports up to one. On one machine the first \
    slice starts the cluster, and the others find it, with --meet FOLDER; loadtest/slices.sh runs all that. \
    Against a cluster that is there, on machines anywhere, give each --edge and --keys.

    CHAOS
      A fault comes every INTERVAL, a quarter more or less by the seed, and lasts LENGTH, or by the \
    seed between two lengths (kill-all-nats=20s/1s-15s). Calls are placed all the while.
    \(chaosKinds)
      all                   all of them but drain, with their defaults
      Faults of a kind wait for a node whose like is well, where there are several. They stop \
    early enough for everything to settle before the end. The judge forgives that a fault makes \
    something late, or refused with "try again", by time and node, and never a wrong end. The cluster's \
    journal is read as well, and judged together with what devices received (see --journal).

    SLEEPING
      With --sleeping devices register push tokens and then let go of their connections. callload is \
    the provider, a strict APNs: what the cluster pushes wakes the device after 0.3 s, half of the times later; it \
    attaches for that call, rings, answers or declines, half of the refusals over HTTP with what the \
    push allows, and sleeps again when the call is over. One push in fifty wakes nobody, and another one in fifty wakes \
    the device when the call is over. Callers are awake. The apps are a mix of \
    SDKs, each with the payloads and the clean-up pushes that it knows.

    THE APP
      A local cluster has a second app, strict, for the parts of a scenario in which users in a call are called: \
    its users take no second call, and their devices are shown the calls that they are in. With --ongoing \
    those of all users are. With --hook callload is the server that both apps ask about each call: it \
    allows, refuses, gives another display name, sends the call to somebody else, is slow, or gives no \
    answer, which refuses the call in one app and allows it in the other one.

    WEBHOOKS AND HISTORIES
      With --webhooks, and with the scenario default, the app of the local cluster has a webhook, and \
    callload is its server: it verifies each event, refuses one in a hundred once, and judges whether each \
    call's events came, in order, and no others. With --history, and with the scenario default, the app \
    keeps histories: at the end the users on both sides of 100 calls read theirs, until they are complete \
    or 20 s have passed. Both cost the cluster something for each call, so servers' figures compare only \
    with runs that have the same.

    HOSTILE
      With --hostile the load runs once alone, then once beside each attack that is named; each run has \
    a cluster of its own. Attackers are a thread of their own at a low priority, and have addresses of \
    their own (127.66.0.1 and up; the devices have 127.1.0.1 and up) and good tokens of users who are \
    not those of the load. An attack lasts --duration; the load goes on for 10 s. The rates are \
    those below, whatever the edges do, but no connection holds more than 256 kB unsent, and one that \
    the edge closed is opened again a second later.
    \(attacks)
      each                all of them, one after the other
      all                 all of them at the same time
      The aim: no failure of the load, ring p99 at most twice that of the quiet run or 10 ms, no node \
    beyond twice its quiet memory, rings as quick as before within 10 s of the end of the attack. \
    With --edge only that cluster is attacked: give none but your own.

    EXIT STATUS
      0  all devices connected, all calls completed, every correctness count is 0
      1  something of that does not hold, or the aim under an attack is missed
      2  the run could not begin: wrong options, something missing
      130  ended by Ctrl-C or SIGTERM, after printing what is there
    """
  }

  private static var chaosKinds: String {
    list(
      ChaosKind.allCases.map { kind in
        (kind.rawValue, "  \(kind.facts.summary) (\(ChaosPlan.Entry(kind).text))")
      })
  }

  private static var attacks: String { list(Attack.allCases.map { ($0.rawValue, $0.help) }) }

  private static func list(_ lines: [(name: String, text: String)]) -> String {
    lines.map { line in
      "  \(line.name)\(String(repeating: " ", count: max(1, 20 - line.name.count)))\(line.text)"
    }.joined(separator: "\n")
  }
}

extension Attack {
  var help: String {
    let facts = self.facts
    let on = facts.connections > 0 ? " on \(Units.count(facts.connections)) connections" : ""
    return "\(facts.summary): \(Units.count(Int(facts.perSecond))) \(facts.unit)/s\(on)"
  }
}
