import CallProcesses
import CallTelemetry
package import FoundationEssentials

extension RunReport {
  /// The report of `--json`. loadtest/callload.md documents the names, which are stable: members are only
  /// added. Figures that were not measured are left out.
  package func json(search: SearchReport? = nil) -> JSONObject {
    let verdict = Verdict(self)
    let app = AppRunReport(result)
    return [
      "ok": verdict.isOK, "problems": verdict.problems, "interrupted": result.interrupted,
      "incidents": incidents.isEmpty ? nil : incidents,
      "devices": devicesJSON, "calls": callsJSON, "failures": result.failures,
      "latency_us": JSONObject(
        LatencyPhase.allCases.compactMap { phase in
          Percentiles(result.latency[phase]).map { (phase.rawValue, $0.json) }
        }),
      "histograms": JSONObject(result.latency.map { ($0.key.rawValue, $0.value) }),
      "series": result.series?.json,
      "cpu_us_per_call": cpuJSON, "memory_bytes": memoryJSON,
      "edge_bytes_per_device": edgeBytesPerDevice, "idle": idle?.json,
      "correctness": JSONObject(
        CorrectnessRule.allCases.map { ($0.rawValue, result.correctness[$0] ?? 0) }),
      "processes": processes.map { process -> JSONObject in
        [
          "name": process.name, "role": process.role.rawValue,
          "cpu_us": process.cpuMicroseconds, "memory_bytes": process.memoryBytes,
        ]
      },
      "load_seconds": result.loadSeconds.toThousandth,
      "ramp_seconds": result.rampSeconds.toThousandth,
      "settings": settings.json, "machine": machine.json, "find_max": search?.json,
      "chaos": result.chaos.map { ChaosReport(chaos: $0).json },
      "pushes": result.pushes.map {
        PushRunReport(pushes: $0, callsPlaced: result.callsPlaced).json
      },
      "webhooks": app.webhooksJSON, "history": app.historyJSON,
      "ongoing": app.ongoingJSON, "hook": app.hookJSON,
      "journal": result.journal.map { JournalReport(findings: $0).json },
      "hostile": HostileReport(hostile)?.json,
    ]
  }

  private var devicesJSON: JSONObject {
    [
      "expected": result.devicesExpected, "connected": result.devicesConnected,
      "registered": result.devicesRegistered, "per_user": settings.devicesPerUser,
      "nearer_moves": settings.nearer ? result.nearerMoves : nil,
    ]
  }

  private var callsJSON: JSONObject {
    [
      "expected": result.callsExpected, "placed": result.callsPlaced,
      "completed": result.callsCompleted, "by_part": result.callsByPart,
      "rate_per_second_asked": settings.callsPerSecond,
      "rate_per_second_placed": (result.callsPerSecond ?? 0).toThousandth,
    ]
  }

  private var cpuJSON: JSONObject {
    var json: JSONObject = ["total": cpuPerCall()?.toThousandth]
    for role in ProcessRole.allCases { json[role.rawValue] = cpuPerCall(role)?.toThousandth }
    if result.callsPlaced > 0 {
      json["callload"] = (Double(ownCPUMicroseconds) / Double(result.callsPlaced)).toThousandth
    }
    return json
  }

  private var memoryJSON: JSONObject {
    var json: JSONObject = ["total": memoryBytes(), "callload": ownMemoryBytes]
    for role in ProcessRole.allCases { json[role.rawValue] = memoryBytes(role) }
    return json
  }
}

extension RunSettings {
  fileprivate var json: JSONObject {
    [
      "processes": processes, "slice": slice, "scenario": scenario, "protocol": protocolName,
      "seed": seed,
      "duration_seconds": durationSeconds, "coordinators": coordinators, "edges": edges,
      "nodes": nodes > 0 ? nodes : nil, "nearer": nearer ? true : nil,
      "nats_servers": edgeURLs.isEmpty ? natsServers : 0, "tls": tls ? true : nil,
      "chaos": chaos.isEmpty ? nil : chaos, "hostile": attacks.isEmpty ? nil : attacks,
      "other_callnode": otherCallnode,
      "push_gateways": sleepingShare > 0 || webhooks ? pushGateways : nil,
      "webhooks": webhooks ? true : nil, "history": history ? true : nil,
      "ongoing": ongoing ? true : nil, "hook": hook ? true : nil,
      "sleeping_share": sleepingShare > 0 ? sleepingShare : nil, "edge_urls": edgeURLs,
    ]
  }
}

extension IdleUsage {
  fileprivate var json: JSONObject {
    let total = cpuPerSecond()
    var cpu: JSONObject = [
      "total": total?.toThousandth, "callload": ownCPUPerSecond.toThousandth,
    ]
    for role in ProcessRole.allCases { cpu[role.rawValue] = cpuPerSecond(role)?.toThousandth }
    return [
      "seconds": seconds.toThousandth, "devices": devices, "cpu_us_per_second": cpu,
      "cpu_us_per_second_and_device": total.map { perDevice($0).toThousandth },
    ]
  }
}

extension LatencySeries {
  fileprivate var json: JSONObject {
    var json: JSONObject = ["interval_seconds": slotSeconds]
    for phase in Self.phases {
      let points = points(phase)
      json[phase.rawValue] =
        [
          "seconds": points.map(\.seconds), "p50": points.map(\.1.p50),
          "p99": points.map(\.1.p99), "max": points.map(\.1.max),
        ] as JSONObject
    }
    return json
  }
}

extension MachineFacts {
  fileprivate var json: JSONObject {
    [
      "cpus": cpus, "cpu_model": cpuModel, "memory_bytes": memoryBytes, "kernel": kernel,
      "nats_version": natsVersion,
    ]
  }
}

extension SearchReport {
  fileprivate var json: JSONObject {
    [
      "highest_rate": best?.rate, "ring_p99_max_us": ringP99Max,
      "stages": stages.map { stage -> JSONObject in
        [
          "rate": stage.rate, "placed_per_second": stage.placedPerSecond.toThousandth,
          "holds": stage.holds, "ring_p50_us": stage.ringP50, "ring_p99_us": stage.ringP99,
          "cpu_us_per_call": stage.cpuPerCall?.toThousandth, "reasons": stage.reasons,
        ]
      },
    ]
  }
}

/// A JSON object. Members without a value are left out.
package struct JSONObject: Encodable, ExpressibleByDictionaryLiteral {
  package var members: [String: any Encodable]

  package init(dictionaryLiteral elements: (String, (any Encodable)?)...) {
    members = [:]
    for (name, value) in elements { members[name] = value }
  }

  package init(_ pairs: some Sequence<(String, any Encodable)>) {
    members = Dictionary(uniqueKeysWithValues: pairs)
  }

  package subscript(name: String) -> (any Encodable)? {
    get { members[name] }
    set { members[name] = newValue }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: MemberName.self)
    for (name, value) in members {
      try container.encode(value, forKey: MemberName(stringValue: name))
    }
  }

  /// Indented, names in alphabetical order, with a line break at the end.
  /// - Throws: what a member's encoding throws.
  package func encoded() throws -> Data {
    Data((try sortedJSON(indented: true) + "\n").utf8)
  }
}

struct MemberName: CodingKey {
  var stringValue: String
  var intValue: Int? { nil }
  init(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

extension Double {
  /// To a thousandth: more digits would not be significant.
  var toThousandth: Double { (self * 1_000).rounded() / 1_000 }
}
