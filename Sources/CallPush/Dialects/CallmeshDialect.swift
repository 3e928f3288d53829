internal import CallCore

/// Our own payload: one object under the key `callmesh`. Every other dialect contains it as well, so that any reader
/// finds the call, its deadline and the capability.
enum CallmeshDialect {
  /// Changes only for forms that former readers misunderstand; further members do not change it.
  static let version: Int64 = 1

  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm {
    switch purpose {
    case .ring, .missed, .answeredElsewhere, .cancel:
      PayloadForm(kind: .voip) { [note($0)] }
    case .ended:
      // On platforms other than Apple's the app itself decides what to show.
      PayloadForm(kind: provider == .apns ? .alert : .background) {
        provider == .apns ? [AlertForm.ended($0), note($0)] : [note($0)]
      }
    case .missedNotice:
      PayloadForm(kind: .alert) {
        provider == .apns ? [AlertForm.missedNotice($0), note($0)] : [note($0)]
      }
    }
  }

  /// The object under `callmesh`.
  static func note(_ draft: PushDraft) -> PayloadMember {
    let job = draft.job
    var members: [PayloadMember] = [
      PayloadMember("v", version),
      PayloadMember("purpose", job.purpose.name),
      PayloadMember("call", job.call.description),
      PayloadMember("callee", job.user.user),
      PayloadMember("caller", party(draft.caller)),
    ]
    if job.video { members.append(PayloadMember("video", true)) }
    if let placedAt = draft.placedAt {
      members.append(PayloadMember("placedAtMs", placedAt.milliseconds))
    }
    members.append(PayloadMember("sentAtMs", job.decidedAt.milliseconds))
    members.append(PayloadMember("deadlineMs", job.ringDeadline.milliseconds))
    if !draft.content.capability.isEmpty {
      members.append(PayloadMember("capability", draft.content.capability))
    }
    if let reason = job.reason { members.append(PayloadMember("reason", reason.name)) }
    if let by = draft.by { members.append(PayloadMember("by", party(by))) }
    if !draft.headers.isEmpty {
      members.append(
        PayloadMember(
          "headers",
          .objects(
            draft.headers.map {
              [PayloadMember("name", $0.name), PayloadMember("value", $0.value)]
            }
          )))
    }
    return PayloadMember("callmesh", members)
  }

  private static func party(_ party: Party) -> [PayloadMember] {
    var members = [PayloadMember("user", party.user)]
    if !party.device.text.isEmpty {
      members.append(PayloadMember("device", party.device.text))
    }
    if !party.deviceName.isEmpty {
      members.append(PayloadMember("deviceName", party.deviceName))
    }
    return members
  }
}

/// The `aps` of pushes that the system shows.
///
/// The app supplies the texts by key, with the caller as the only argument. `thread-id` is the call's id, so that the
/// app can find and remove what the system shows of a call.
enum AlertForm {
  /// The call that rang on this device is over. The push is silent and runs the app, which ends the call that it
  /// reported to CallKit.
  static func ended(_ draft: PushDraft) -> PayloadMember {
    PayloadMember(
      "aps",
      [
        alert(endedKey(draft.job), draft),
        PayloadMember("content-available", 1),
        PayloadMember("interruption-level", "passive"),
        PayloadMember("category", "CALLMESH_CALL_ENDED"),
        PayloadMember("thread-id", draft.job.call.hex),
      ])
  }

  static func missedNotice(_ draft: PushDraft) -> PayloadMember {
    PayloadMember(
      "aps",
      [
        alert(missedKey(draft.job), draft),
        PayloadMember("sound", "default"),
        // An extension of the app may replace the user by the contact's name.
        PayloadMember("mutable-content", 1),
        PayloadMember("category", "CALLMESH_MISSED_CALL"),
        PayloadMember("thread-id", draft.job.call.hex),
      ])
  }

  private static func alert(_ key: String, _ draft: PushDraft) -> PayloadMember {
    PayloadMember(
      "alert",
      [PayloadMember("loc-key", key), PayloadMember("loc-args", .texts([draft.job.caller.user]))])
  }

  private static func missedKey(_ job: PushJob) -> String {
    job.video ? "CALLMESH_MISSED_VIDEO_CALL" : "CALLMESH_MISSED_CALL"
  }

  private static func endedKey(_ job: PushJob) -> String {
    switch job.reason {
    case .answeredElsewhere, .glare: "CALLMESH_ANSWERED_ELSEWHERE"
    case .declined: "CALLMESH_DECLINED_ELSEWHERE"
    case .cancelled, .unanswered, .busy, .unreachable: missedKey(job)
    case .hungUp, .failed, nil: "CALLMESH_CALL_ENDED"
    }
  }
}

extension CallID {
  /// 32 hex digits.
  var hex: String { description.filter { $0 != "-" } }
}
