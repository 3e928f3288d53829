internal import CallCore
package import CallTelemetry

/// A call, and why each device of the callee rang or did not, as `callctl call` prints it.
package struct CallView: Encodable {
  package struct Sentence: Encodable {
    package var user: String
    package var device: String
    package var text: String
  }

  var call: CallReport
  package var why: [Sentence] = []
  /// Set where the call has no device.
  package private(set) var whyNobody: String?

  /// - Parameter user: the callee as the cluster knows it now, for devices that had no part in the
  ///   call; nil where that could not be found out.
  package init(_ report: CallReport, user: UserReport?) {
    call = report
    let legs = report.legs ?? []
    why = legs.map {
      Sentence(
        user: $0.party.user, device: $0.party.device, text: LegStory(report, $0).sentence)
    }
    let callee = report.callee ?? ""
    func hasPart(_ device: String) -> Bool {
      legs.contains { $0.party.device.hasBytes(of: device) && $0.party.user.hasBytes(of: callee) }
    }
    for device in user?.devices ?? [] where !hasPart(device.device) && !isCaller(device.device) {
      why.append(Sentence(user: callee, device: device.device, text: bystander(device)))
    }
    if legs.isEmpty { whyNobody = reasonForNobody(hasDevices: user?.devices?.isEmpty == false) }
  }

  private func reasonForNobody(hasDevices: Bool) -> String {
    let callee = call.callee ?? "the callee"
    if call.reason == "busy" {
      return "\(callee) was busy: every device had as many live calls as it may have, or the user "
        + "was in a call."
    }
    let without = "\(callee) had no device with a session"
    return hasDevices
      ? "\(without) when the call was placed."
      : "\(without), and has none now that is attached or registered: check the user id and that the "
        + "app is signed in."
  }

  private func isCaller(_ device: String) -> Bool {
    guard let caller = call.caller, let callee = call.callee else { return false }
    return caller.user.hasBytes(of: callee) && caller.device.hasBytes(of: device)
  }

  /// The sentence on a device that had no part in the call.
  private func bystander(_ device: UserReport.Device) -> String {
    let placed = call.timeline?.first.map { $0.atMicroseconds / 1000 } ?? 0
    if let attached = device.attachedAtMilliseconds, attached > placed {
      return "had no part in the call: its present session began "
        + "\(Figures.latency(microseconds: (attached - placed) * 1000)) after the call was placed, "
        + "when it no longer rang."
    }
    if device.session != nil {
      return "had no part in the call though it has a session: it had as many live calls as one "
        + "device may have."
    }
    return device.registeredAtMilliseconds != nil
      ? "did not ring: it is registered but had no session, and only a push can wake it."
      : "did not ring: it had no session."
  }
}
