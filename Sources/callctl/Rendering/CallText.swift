internal import CallCore
internal import CallTelemetry

/// The output of `callctl call`.
package enum CallText {
  package static func render(_ view: CallView) -> String {
    var lines = heading(view.call) + legs(view.call) + timeline(view.call)
    lines += ["", "Why each device rang or did not"]
    lines += view.why.map { "  \(Figures.safe($0.user)) (\(Figures.safe($0.device))) \($0.text)" }
    if let nobody = view.whyNobody { lines.append("  " + nobody) }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func heading(_ report: CallReport) -> [String] {
    var state = report.phase ?? "unknown"
    if let reason = report.reason { state += ", \(reason)" }
    if let by = report.by { state += " by \(party(by))" }
    if report.isEndedByApp { state += " by the app's server" }
    var rows = [
      ["Call", report.call ?? ""], ["State", state],
      ["Caller", report.caller.map(party) ?? "unknown"],
      ["Callee", "\(report.callee ?? "") in app \(report.app ?? "")"],
    ]
    rows.append(
      report.node.isEmpty
        ? ["From", "its record, written when it had ended"]
        : ["Shard", "\(report.shard.map(String.init) ?? "?") on \(report.node)"])
    if let start = report.timeline?.first {
      rows.append(["Placed", CalendarTime.text(milliseconds: start.atMicroseconds / 1000)])
    }
    if let deadline = report.deadlineMilliseconds {
      rows.append(["Rings until", CalendarTime.text(milliseconds: deadline)])
    }
    return Columns.render(rows)
  }

  private static func legs(_ report: CallReport) -> [String] {
    let legs = report.legs ?? []
    guard !legs.isEmpty else { return ["", "No device of the callee had a part in it."] }
    let rows = legs.map { leg in
      let name = leg.party.deviceName
      return [
        leg.party.user, leg.party.device, name.isEmpty ? "-" : name, leg.state, leg.session ?? "-",
      ]
    }
    return [""] + Columns.render([["USER", "DEVICE", "NAME", "STATE", "SESSION"]] + rows)
  }

  private static func timeline(_ report: CallReport) -> [String] {
    let events = report.timeline ?? []
    guard let start = events.first?.atMicroseconds else { return [] }
    let rows = events.map { event in
      let time = Figures.latency(microseconds: event.atMicroseconds - start)
      return ["+" + time, event.user ?? "-", device(event, report), what(event)]
    }
    var lines = [""] + Columns.render([["TIME", "USER", "DEVICE", "EVENT"]] + rows, right: 0...0)
    if let count = report.timelineDropped, count > 0 {
      lines.append(
        "(\(Figures.counted(count, "further event")) had no room: acknowledgements, repetitions and "
          + "pushes give way first.)")
    }
    return lines
  }

  private static func what(_ event: CallReport.Event) -> String {
    var text = event.what
    if let purpose = event.purpose { text += " (\(purpose))" }
    if let reason = event.reason { text += ": \(reason)" }
    return text
  }

  private static func device(_ event: CallReport.Event, _ report: CallReport) -> String {
    guard let device = event.device else { return "-" }
    guard let user = event.user, let caller = report.caller, user.hasBytes(of: caller.user),
      device.hasBytes(of: caller.device)
    else { return device }
    return device + " (caller)"
  }

  private static func party(_ party: CallReport.Party) -> String {
    "\(party.user), device \(party.shownDevice)"
  }
}
