internal import CallCore
internal import CallTelemetry

/// One sentence on whether a leg's device rang, from the events of the call.
struct LegStory {
  /// In less time than this, in microseconds, no connection has to bring an acknowledgement.
  private static let roundTripMax: Int64 = 200_000

  let report: CallReport
  let leg: CallReport.Leg
  let events: [CallReport.Event]
  let start: Int64

  init(_ report: CallReport, _ leg: CallReport.Leg) {
    self.report = report
    self.leg = leg
    let all = report.timeline ?? []
    start = all.first?.atMicroseconds ?? 0
    // Nodes of earlier versions do not report the device's user.
    events = all.filter { Self.isOf(leg.party, $0) }
  }

  private static func isOf(_ party: CallReport.Party, _ event: CallReport.Event) -> Bool {
    (event.device?.hasBytes(of: party.device) ?? false)
      && (event.user?.hasBytes(of: party.user) ?? true)
  }

  private func isOwn(_ event: CallReport.Event) -> Bool { Self.isOf(leg.party, event) }

  var sentence: String {
    if leg.state == "alerting" || first("alerting") != nil {
      return "rang\(at("alerting"))" + ending
    }
    let mayHaveRung = isKnownInPart || isCut
    let unsaid = mayHaveRung ? "" : " without having said that it rings"
    if leg.state == "won" || leg.state == "moved" {
      return (tookOver ?? "answered\(unsaid)\(at("answered"))") + handedOver + "."
    }
    if leg.state == "declined" { return "declined\(unsaid)." }
    if leg.state == "busy" {
      return "\(mayHaveRung ? "" : "did not ring: it ")said that it is busy\(at("busy"))."
    }
    if let acknowledged = inviteAcknowledged {
      let got = "got the invite after \(time(acknowledged))"
      if isCut { return "\(got), \(unknown)\(stopped)." }
      return "\(got) but never said that it rings: the app did not show the call, or its SDK does "
        + "not send alerting\(stopped)."
    }
    return notReached
  }

  /// How the ringing of a device that rang ended.
  private var ending: String {
    switch leg.state {
    case "won", "moved": " and \(tookOver ?? "answered\(at("answered"))")\(handedOver)."
    case "declined":
      first("declined here") == nil
        ? " and declined for all devices\(at("declined"))."
        : " and declined for itself\(at("declined here"))."
    case "busy": " and then said that it is busy\(at("busy"))."
    case "gone": " and then left\(at("left"))."
    case "stopped", "diverted": stopped + "."
    default: lost == nil ? " and rings still." : " but has lost its session\(at("session lost"))."
    }
  }

  /// How it got an answered call; nil where it answered itself.
  private var tookOver: String? {
    first("answered") == nil
      ? first("taken over").map { "took the call over after \(time($0))" } : nil
  }

  /// The line that it had the call until another device got it.
  private var handedOver: String {
    guard leg.state == "moved" else { return "" }
    let all = report.timeline ?? []
    let begin = events.last { $0.what == "answered" || $0.what == "taken over" }
    let next = all.first {
      $0.what == "taken over" && !isOwn($0) && $0.atMicroseconds >= begin?.atMicroseconds ?? start
    }
    guard let next, let device = next.device else { return "; another device has it since" }
    let party = CallReport.Party(user: next.user ?? leg.party.user, device: device, deviceName: "")
    return "; \(shown(party)) has it since \(time(next))"
  }

  /// Whether the shard changed its owner. The new one has only the journal, which does not record deliveries.
  private var isKnownInPart: Bool {
    report.timeline?.contains { $0.what == "shard taken over" } == true
      && first("delivered") == nil
  }

  /// Whether events had no room. Any event may be missing, except those that decide a call.
  private var isCut: Bool { (report.timelineDropped ?? 0) > 0 }

  private var unknown: String {
    "but whether it rang is not known: more happened in the call than is kept"
  }

  private var notReached: String {
    let invites = events.count { $0.what == "delivered" || $0.what == "repeated" }
    guard invites > 0 || !isKnownInPart else {
      return
        "had a part in the call, but whether it rang is not known: its shard changed its owner, "
        + "and the journal does not keep that\(stopped)."
    }
    let push = pushFate.map { " The push that was to wake it \($0)." } ?? ""
    if isCut {
      let part = invites > 0 ? "was sent the invite" : "had a part in the call"
      let left = leg.state == "gone" ? " and left\(at("left"))" : ""
      return "\(part)\(left), \(unknown)\(stopped).\(push)"
    }
    guard invites > 0 else { return notInvited }
    let times = invites == 1 ? "once" : "\(invites) times"
    if leg.state == "gone" {
      return "did not ring: the invite was sent \(times), then it left\(at("left")).\(push)"
    }
    if let sent = first("delivered"), let stoppedAt, lost == nil, invites == 1, wasStopped {
      let had = stoppedAt.atMicroseconds - sent.atMicroseconds
      if had < Self.roundTripMax {
        return
          "was sent the invite only \(Figures.latency(microseconds: had)) before it was over, and "
          + "did not acknowledge it\(stopped).\(push)"
      }
      return "was sent the invite but did not acknowledge it before it was over\(stopped): its "
        + "connection was too slow, or dead.\(push)"
    }
    let loss = lost.map { " Its session broke after \(time($0))." } ?? ""
    let still = leg.state == "waking" ? " So far it has not answered." : ""
    return "did not ring: the invite was sent \(times) and never acknowledged, so its connection "
      + "was dead or the app did not run\(stopped).\(loss)\(push)\(still)"
  }

  private var notInvited: String {
    if let pushFate {
      return
        "did not come: it had no session, and the push that was to wake it \(pushFate)\(stopped)."
    }
    if leg.state == "gone" { return "did not ring: it left before the invite was sent." }
    return
      "did not ring: it had no session\(first("session lost") == nil ? "" : " any more")\(stopped)."
  }

  /// The outcome of the ring push; nil where there was none.
  private var pushFate: String? {
    guard let queued = events.first(where: { $0.what == "push queued" && $0.purpose == "ring" })
    else { return nil }
    let reports = events.filter { $0.what != "push queued" && $0.purpose == "ring" }
    guard let report = reports.last else {
      if isCut { return "was queued after \(time(queued))" }
      return
        "was queued after \(time(queued)), but no push gateway has said what became of it: does "
        + "one run that serves its provider? callctl status tells"
    }
    let because = report.reason.map { " (\(Figures.safe($0)))" } ?? ""
    switch report.what {
    case "push accepted":
      let accepted = "was accepted by its provider after \(time(report))"
      if isCut { return accepted }
      return "\(accepted), but it did not attach: it is off, out of reach, or its app did not start"
    case "push token gone":
      return "found its token gone after \(time(report)): the app was removed, or has a new token"
    case "push rejected": return "was refused after \(time(report))\(because)"
    // A gateway reports both in the same way.
    case "push expired": return "was not sent: its deadline passed, or the call was over first"
    case "push failed": return "failed after \(time(report))\(because)"
    default: return "came to \(Figures.safe(report.what))\(because)"
    }
  }

  /// `, until it was cancelled after 3.2 s`.
  private var stopped: String {
    guard wasStopped else { return "" }
    let end =
      stoppedAt ?? (leg.state == "stopped" ? report.timeline?.last { $0.what == "ended" } : nil)
    // A new owner stops all devices once more. When the former owner did is not known.
    let when = isKnownInPart ? "" : end.map { " after \(time($0))" } ?? ""
    return "; stopped\(when) because \(reason)"
  }

  private var wasStopped: Bool { leg.state == "stopped" || leg.state == "diverted" }

  private var reason: String {
    if leg.state == "diverted" { return "the call went on to others" }
    if let winner = report.legs?.first(where: { $0.state == "won" || $0.state == "moved" }) {
      return "\(shown(winner.party)) answered"
    }
    switch report.reason {
    case "cancelled" where report.isEndedByApp: return "the app's server ended the call"
    case "cancelled": return "the caller cancelled"
    case "declined":
      let device = report.by.map(shown) ?? "another device"
      return "\(device) declined for all devices"
    case "unanswered": return "nobody answered in time"
    case "busy": return "the other devices were busy"
    case "unreachable": return "no device could be reached"
    case "failed": return "the call failed"
    case "glare": return "both users called each other, and the other call went on"
    case let other?: return "the call ended (\(Figures.safe(other)))"
    case nil: return "another device took the call"
    }
  }

  private var inviteAcknowledged: CallReport.Event? {
    let end = events.firstIndex { $0.what == "stopped" } ?? events.endIndex
    return events[..<end].first { $0.what == "acknowledged" }
  }

  private var stoppedAt: CallReport.Event? { events.last { $0.what == "stopped" } }

  /// The loss of its session, unless it came back.
  private var lost: CallReport.Event? {
    guard let index = events.lastIndex(where: { $0.what == "session lost" }) else { return nil }
    return events[index...].contains { $0.what == "attached" } ? nil : events[index]
  }

  /// The device, with its user where that is another one.
  private func shown(_ party: CallReport.Party) -> String {
    let device = Figures.safe(party.shownDevice)
    return party.user.hasBytes(of: leg.party.user)
      ? device : "\(device) of \(Figures.safe(party.user))"
  }

  private func first(_ what: String) -> CallReport.Event? { events.first { $0.what == what } }

  private func at(_ what: String) -> String {
    first(what).map { " after \(time($0))" } ?? ""
  }

  private func time(_ event: CallReport.Event) -> String {
    Figures.latency(microseconds: event.atMicroseconds - start)
  }
}

extension CallReport.Party {
  /// The device, and its name where it has one.
  var shownDevice: String {
    deviceName.isEmpty || deviceName == device ? device : "\(device) (\(deviceName))"
  }
}
