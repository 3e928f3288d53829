package import CallTelemetry

/// The tables of `callctl users` and `callctl calls`, and below each what it leaves out.
package enum ListText {
  package static func users(_ list: ListView<ListedUser>) -> String {
    let rows = list.entries.map {
      [$0.user, $0.app, "\($0.attached)", "\($0.registered)", "\($0.liveCallsTo)"]
    }
    let heading = ["USER", "APP", "ATTACHED", "REGISTERED", "LIVE CALLS TO IT"]
    return text(
      Columns.render([heading] + rows, right: 2...4), list, noun: "user", order: "further",
      narrowing: "--app narrows",
      none: "No user has a session or a registration.")
  }

  /// - Parameter isLive: whether ended calls were left out.
  package static func calls(_ list: ListView<ListedCall>, isLive: Bool) -> String {
    var rows = [
      ["CALL", "STATE", "AGE", "CALLER", "CALLEE", "ANSWERED BY", "APP", "SHARD", "OWNER"]
    ]
    for call in list.entries {
      rows.append([
        call.call, call.phase + (call.reason.map { ", \($0)" } ?? ""),
        Figures.uptime(seconds: Double(list.age(of: call))), party(call.caller), call.callee,
        call.winner.map(party) ?? "-", call.app, "\(call.shard)", call.owner,
      ])
    }
    return text(
      Columns.render(rows, right: 2...2, 7...7), list, noun: "call", order: "older",
      narrowing: "--app and --user narrow",
      none: isLive ? "No live calls." : "No calls, now or in the last minutes.")
  }

  private static func text<Entry>(
    _ table: [String], _ list: ListView<Entry>, noun: String, order: String, narrowing: String,
    none: String
  ) -> String {
    var lines = list.entries.isEmpty ? [none] : table
    if list.leftOut > 0 {
      lines.append(
        "(\(Figures.counted(list.leftOut, "\(order) \(noun)")) not shown: --limit N shows more, at most "
          + "\(ListQuery.limitMax); \(narrowing) the list.)")
    }
    if list.shardsMissing > 0 {
      lines.append(
        "(No coordinator answered for \(Figures.counted(list.shardsMissing, "shard")): their \(noun)s "
          + "are missing here. callctl status says why.)")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func party(_ party: CallReport.Party) -> String {
    "\(party.user) (\(party.device))"
  }
}
