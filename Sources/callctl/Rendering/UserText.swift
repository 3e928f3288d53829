package import CallTelemetry

/// What `callctl user` prints.
package enum UserText {
  /// - Parameter now: milliseconds since 1970.
  package static func render(_ report: UserReport, now: Int64) -> String {
    var lines = Columns.render(
      [
        ["User", "\(Figures.safe(report.user ?? "")) in app \(Figures.safe(report.app ?? ""))"],
        ["Shard", "\(report.shard.map(String.init) ?? "?") on \(Figures.safe(report.node))"],
      ], sides: [])
    lines.append("")
    lines += devices(report.devices ?? [], now: now)
    lines += tokens(report.devices ?? [])
    lines.append("")
    lines += calls(report.calls ?? [])
    return lines.joined(separator: "\n") + "\n"
  }

  private static func devices(_ devices: [UserReport.Device], now: Int64) -> [String] {
    guard !devices.isEmpty else { return ["No devices."] }
    var rows = [["DEVICE", "NAME", "SESSION", "ATTACHED", "REGISTERED", "PUSH", "CLIENT"]]
    for device in devices {
      rows.append([
        Figures.safe(device.device), shown(device.name), device.session ?? "-",
        device.attachedAtMilliseconds.map { "\(ago($0, now))" } ?? "-",
        device.registeredAtMilliseconds.map { "\(ago($0, now))" } ?? "no",
        device.pushProviders.isEmpty ? "-" : device.pushProviders.joined(separator: ", "),
        shown(device.client),
      ])
    }
    return Columns.render(rows, sides: [])
  }

  /// What wakes the devices. The token itself is not known here.
  private static func tokens(_ devices: [UserReport.Device]) -> [String] {
    var rows = [
      ["PUSH TO", "KIND", "PROVIDER", "ENVIRONMENT", "TOPIC", "FINGERPRINT", "DIALECT", "TAKES"]
    ]
    for device in devices {
      for token in device.tokens ?? [] {
        rows.append([
          Figures.safe(device.device), Figures.safe(token.kind), Figures.safe(token.provider),
          shown(token.environment), shown(token.topic), shown(token.fingerprint),
          shown(device.dialect ?? ""),
          shown((device.capabilities ?? []).joined(separator: ", ")),
        ])
      }
    }
    return rows.count == 1 ? [] : [""] + Columns.render(rows, sides: [])
  }

  private static func calls(_ calls: [UserReport.Call]) -> [String] {
    guard !calls.isEmpty else { return ["No calls, now or in the last minutes."] }
    var rows = [["CALL", "STATE"]]
    for call in calls {
      rows.append([call.call, call.phase + (call.reason.map { ", \($0)" } ?? "")])
    }
    return Columns.render(rows, sides: [])
  }

  private static func shown(_ text: String) -> String { text.isEmpty ? "-" : Figures.safe(text) }

  private static func ago(_ then: Int64, _ now: Int64) -> String {
    Figures.uptime(seconds: Double(max(0, now - then)) / 1000) + " ago"
  }
}
