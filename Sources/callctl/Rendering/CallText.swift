internal import CallCore
package import CallTelemetry

/// What `callctl call` prints.
package enum CallText {
  package static func render(_ report: CallReport, user: UserReport?) -> String {
    var lines = heading(report)
    lines += legs(report)
    lines += timeline(report)
    lines.append("")
    lines.append("Why each device rang or did not")
    let sentences = Explanation.of(report, user: user)
    for sentence in sentences {
      lines.append("  \(Figures.safe(sentence.device)) \(sentence.text)")
    }
    if let nobody = Explanation.whyNobody(report, user: user) { lines.append("  " + nobody) }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func heading(_ report: CallReport) -> [String] {
    var state = report.phase ?? "unknown"
    if let reason = report.reason { state += ", \(reason)" }
    if let by = report.by { state += " by \(party(by))" }
    var rows = [
      ["Call", Figures.safe(report.call ?? "")],
      ["State", state],
      ["Caller", report.caller.map(party) ?? "unknown"],
      ["Callee", "\(Figures.safe(report.callee ?? "")) in app \(Figures.safe(report.app ?? ""))"],
      ["Shard", "\(report.shard.map(String.init) ?? "?") on \(Figures.safe(report.node))"],
    ]
    if let start = report.timeline?.first {
      rows.append(["Placed", CalendarTime.text(milliseconds: start.atMicroseconds / 1000)])
    }
    if let deadline = report.deadlineMilliseconds {
      rows.append(["Rings until", CalendarTime.text(milliseconds: deadline)])
    }
    return Columns.render(rows, sides: [.left, .left])
  }

  private static func legs(_ report: CallReport) -> [String] {
    let legs = report.legs ?? []
    guard !legs.isEmpty else { return ["", "No device of the callee had a part in it."] }
    var rows = [["DEVICE", "NAME", "STATE", "SESSION"]]
    for leg in legs {
      rows.append([
        Figures.safe(leg.party.device),
        leg.party.deviceName.isEmpty ? "-" : Figures.safe(leg.party.deviceName), leg.state,
        leg.session ?? "-",
      ])
    }
    return [""] + Columns.render(rows, sides: [])
  }

  private static func timeline(_ report: CallReport) -> [String] {
    let events = report.timeline ?? []
    guard let start = events.first?.atMicroseconds else { return [] }
    var rows = [["TIME", "DEVICE", "EVENT"]]
    for event in events {
      rows.append([
        "+" + Figures.latency(microseconds: event.atMicroseconds - start), device(event, report),
        what(event),
      ])
    }
    return [""] + Columns.render(rows, sides: [.right, .left, .left]) + dropped(report)
  }

  private static func dropped(_ report: CallReport) -> [String] {
    guard let count = report.timelineDropped, count > 0 else { return [] }
    return [
      "(\(Figures.counted(count, "further event")) had no room: acknowledgements, repetitions and "
        + "pushes give way first.)"
    ]
  }

  private static func what(_ event: CallReport.Event) -> String {
    var text = event.what
    if let purpose = event.purpose { text += " (\(Figures.safe(purpose)))" }
    if let reason = event.reason { text += ": \(Figures.safe(reason))" }
    return text
  }

  private static func device(_ event: CallReport.Event, _ report: CallReport) -> String {
    guard let device = event.device else { return "-" }
    let isCaller =
      if let user = event.user, let caller = report.caller {
        user.hasBytes(of: caller.user) && device.hasBytes(of: caller.device)
      } else {
        false
      }
    return Figures.safe(device) + (isCaller ? " (caller)" : "")
  }

  private static func party(_ party: CallReport.Party) -> String {
    let name =
      party.deviceName.isEmpty || party.deviceName == party.device
      ? "" : " (\(Figures.safe(party.deviceName)))"
    return "\(Figures.safe(party.user)), device \(Figures.safe(party.device))\(name)"
  }
}
