package import CallTelemetry

/// The output of `callctl user`.
package enum UserText {
  /// - Parameter now: milliseconds since 1970.
  package static func render(_ report: UserReport, now: Int64) -> String {
    var lines = Columns.render(
      [
        ["User", "\(report.user ?? "") in app \(report.app ?? "")"],
        ["Shard", "\(report.shard.map(String.init) ?? "?") on \(report.node)"],
      ])
    lines.append("")
    lines += devices(report.devices ?? [], now: now)
    lines += tokens(report.devices ?? [])
    lines.append("")
    lines += calls(report, now: now)
    return lines.joined(separator: "\n") + "\n"
  }

  private static func devices(_ devices: [UserReport.Device], now: Int64) -> [String] {
    guard !devices.isEmpty else { return ["No devices."] }
    let rows = devices.map { device in
      [
        device.device, shown(device.name), device.session ?? "-",
        device.attachedAtMilliseconds.map { ago($0, now) } ?? "-",
        device.registeredAtMilliseconds.map { ago($0, now) } ?? "no",
        shown(device.pushProviders.joined(separator: ", ")), shown(device.client),
      ]
    }
    let heading = ["DEVICE", "NAME", "SESSION", "ATTACHED", "REGISTERED", "PUSH", "CLIENT"]
    return Columns.render([heading] + rows)
  }

  /// The registered tokens, which wake the devices. The token itself is not known here.
  private static func tokens(_ devices: [UserReport.Device]) -> [String] {
    var rows = [
      [
        "PUSH TO", "KIND", "PROVIDER", "ENVIRONMENT", "TOPIC", "FINGERPRINT", "TOKEN", "DIALECT",
        "TAKES",
      ]
    ]
    for device in devices {
      for token in device.tokens ?? [] {
        rows.append([
          device.device, token.kind, token.provider, shown(token.environment), shown(token.topic),
          shown(token.fingerprint), shown(token.trust), shown(device.dialect),
          shown(device.capabilities?.joined(separator: ", ")),
        ])
      }
    }
    return rows.count == 1 ? [] : [""] + Columns.render(rows)
  }

  private static func calls(_ report: UserReport, now: Int64) -> [String] {
    let calls = report.calls ?? []
    var lines = calls.isEmpty ? [nothing(report)] : table(calls, now: now)
    if let count = report.callsLeftOut, count > 0 {
      lines.append("(\(Figures.counted(count, "older call")) not shown.)")
    }
    if let count = report.shardsMissing, count > 0 {
      lines.append(
        "(Nobody answered for \(Figures.counted(count, "shard")): calls that the user placed may be "
          + "missing.)")
    }
    return lines
  }

  private static func table(_ calls: [UserReport.Call], now: Int64) -> [String] {
    // A node that does not say who called whom says nothing else of it either.
    guard calls.contains(where: { $0.direction != nil }) else {
      return Columns.render([["CALL", "STATE"]] + calls.map { [$0.call, state($0)] })
    }
    let rows = calls.map { call in
      [
        call.call, state(call), direction(call), shown(call.with),
        call.placedAtMilliseconds.map { ago($0, now) } ?? "-",
      ]
    }
    return Columns.render([["CALL", "STATE", "DIRECTION", "WITH", "PLACED"]] + rows)
  }

  private static func state(_ call: UserReport.Call) -> String {
    call.phase + (call.reason.map { ", \($0)" } ?? "")
  }

  private static func direction(_ call: UserReport.Call) -> String {
    switch call.direction {
    case "placed": "placed"
    case "called": "is called"
    case "toSelf": "calls itself"
    case let other: shown(other)
    }
  }

  private static func nothing(_ report: UserReport) -> String {
    switch report.shardsMissing {
    case .some(0): "No calls, now or in the last minutes."
    // No shard reported the calls that it placed.
    case nil: "No calls to the user, now or in the last minutes."
    case .some: "No calls are known, now or of the last minutes."
    }
  }

  private static func shown(_ text: String?) -> String {
    text.map { $0.isEmpty ? "-" : $0 } ?? "-"
  }

  private static func ago(_ then: Int64, _ now: Int64) -> String {
    Figures.uptime(seconds: Double(max(0, now - then)) / 1000) + " ago"
  }
}
