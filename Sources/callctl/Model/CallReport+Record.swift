package import CallCore
package import CallTelemetry

extension CallReport {
  /// The call that nodes know under an id; nil: none does.
  /// - Throws: `CallctlError` where they know calls of several users.
  package static func only(_ answers: [CallReport], _ id: String) throws -> CallReport? {
    let found = answers.filter(\.found)
    let callees = Set(found.map { "--app \($0.app ?? "") --user \($0.callee ?? "")" }).sorted()
    guard callees.count > 1 else { return found.first }
    throw CallctlError.failed(
      "\(callees.count) calls have the id \(id). Say which one: "
        + callees.map(Figures.safe).joined(separator: ", or ") + ".")
  }

  var isEndedByApp: Bool {
    timeline?.contains { $0.what == CallEventKind.endedByApp.name } ?? false
  }

  /// Makes a report from a record, as a node would have made it for a call that it still knows.
  package init(_ record: CallRecord) {
    func party(_ party: CallCore.Party) -> Party {
      Party(user: party.user, device: party.device.text, deviceName: party.deviceName)
    }
    self.init(found: true, node: "")
    app = record.callee.app
    call = record.call.description
    callee = record.callee.user
    caller = party(record.caller)
    phase = record.end == nil ? "answered" : "ended"
    reason = record.end?.reason.name
    by = record.end?.by.map(party)
    legs = record.legs.map { leg in
      Leg(party: party(leg.party), state: leg.fate.name, session: nil)
    }
    // Whatever a record says, times can be compared.
    let placedAt = min(max(record.placedAt.microseconds, 0), 4_000_000_000_000_000)
    timeline = record.events.map { event in
      var whose: CallCore.Party?
      switch event.who {
      case .call: break
      case .caller: whose = record.caller
      case .leg(let index) where record.legs.indices.contains(index):
        whose = record.legs[index].party
      case .leg: break
      case .device(let device): whose = CallCore.Party(user: record.callee.user, device: device)
      }
      let at = placedAt + Int64(event.offset)
      let target = record.diversions.target(of: event.kind, at: Timestamp(microseconds: at))
      return Event(
        atMicroseconds: at, device: whose?.device.text, user: whose?.user, what: event.kind.name,
        purpose: event.purpose?.name, reason: event.reason.isEmpty ? target : event.reason)
    }
    timelineDropped = record.eventsDropped
  }
}
