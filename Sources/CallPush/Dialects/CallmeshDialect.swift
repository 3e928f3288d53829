internal import CallCore

/// Our own payload: one object under the key `callmesh`. Every other dialect contains it as well, so that any reader
/// finds the call, its deadline and the capability.
enum CallmeshDialect {
  /// Changes only for forms that former readers misunderstand; further members do not change it.
  static let version: Int64 = 1

  static func form(_ purpose: PushPurpose, _ provider: PushProvider) -> PayloadForm {
    // On platforms other than Apple's the app itself decides what to show. FCM sends to Apple's as well.
    let mayBeApple = provider == .apns || provider == .fcm
    return switch purpose {
    case .ring where provider == .fcm:
      PayloadForm(kind: .voip) { [AlertForm.ring($0), note($0)] }
    case .ring, .missed, .answeredElsewhere, .cancel:
      PayloadForm(kind: .voip) { [note($0)] }
    case .ended:
      PayloadForm(kind: provider == .apns ? .alert : .background) {
        mayBeApple ? [AlertForm.ended($0), note($0)] : [note($0)]
      }
    case .missedNotice:
      PayloadForm(kind: .alert) {
        mayBeApple ? [AlertForm.missedNotice($0), note($0)] : [note($0)]
      }
    }
  }

  /// The object under `callmesh`.
  static func note(_ draft: PushDraft) -> PayloadMember {
    let job = draft.job
    let capability = draft.content.capability
    let headers = draft.headers.map {
      [PayloadMember("name", $0.name), PayloadMember("value", $0.value)]
    }
    let members: [PayloadMember?] = [
      PayloadMember("v", version),
      PayloadMember("purpose", job.purpose.name),
      PayloadMember("call", job.call.description),
      PayloadMember("callee", job.callee.user),
      PayloadMember("caller", party(draft.caller)),
      job.video ? PayloadMember("video", true) : nil,
      draft.placedAt.map { PayloadMember("placedAtMs", $0.milliseconds) },
      PayloadMember("sentAtMs", job.decidedAt.milliseconds),
      PayloadMember("deadlineMs", job.ringDeadline.milliseconds),
      capability.isEmpty ? nil : PayloadMember("capability", capability),
      job.reason.map { PayloadMember("reason", $0.name) },
      draft.by.map { PayloadMember("by", party($0)) },
      job.unread.map { PayloadMember("unread", Int64($0)) },
      headers.isEmpty ? nil : PayloadMember("headers", .objects(headers)),
      draft.pushData.isEmpty ? nil : PayloadMember("pushData", draft.pushData),
    ]
    return PayloadMember("callmesh", members.compactMap(\.self))
  }

  private static func party(_ party: Party) -> [PayloadMember] {
    let device = party.device.text
    let members: [PayloadMember?] = [
      PayloadMember("user", party.user),
      device.isEmpty ? nil : PayloadMember("device", device),
      party.deviceName.isEmpty ? nil : PayloadMember("deviceName", party.deviceName),
      party.name.isEmpty ? nil : PayloadMember("name", party.name),
    ]
    return members.compactMap(\.self)
  }
}

/// The `aps` of pushes that the system shows.
///
/// The app supplies the texts by key, with the caller as the only argument. `thread-id` is the call's id, so that the
/// app can find and remove what the system shows of a call.
enum AlertForm {
  /// An iPhone that has nothing but an FCM token, and so no VoIP push, rings by an alert.
  static func ring(_ draft: PushDraft) -> PayloadMember {
    aps(
      draft, alert: draft.job.video ? "CALLMESH_INCOMING_VIDEO_CALL" : "CALLMESH_INCOMING_CALL",
      category: "CALLMESH_INCOMING_CALL",
      [
        PayloadMember("sound", "default"), PayloadMember("mutable-content", 1),
        PayloadMember("interruption-level", "time-sensitive"),
      ])
  }

  /// The call that rang on this device is over. The push is silent and runs the app, which ends the call that it
  /// reported to CallKit.
  static func ended(_ draft: PushDraft) -> PayloadMember {
    aps(
      draft, alert: endedKey(draft.job), category: "CALLMESH_CALL_ENDED",
      [PayloadMember("content-available", 1), PayloadMember("interruption-level", "passive")])
  }

  static func missedNotice(_ draft: PushDraft) -> PayloadMember {
    // An extension of the app may replace the name by that of the contact.
    aps(
      draft, alert: missedKey(draft.job), category: "CALLMESH_MISSED_CALL",
      [PayloadMember("sound", "default"), PayloadMember("mutable-content", 1)])
  }

  private static func aps(
    _ draft: PushDraft, alert key: String, category: String, _ members: [PayloadMember]
  ) -> PayloadMember {
    var members = [alert(key, draft)] + members
    members.append(PayloadMember("category", category))
    members.append(PayloadMember("thread-id", draft.job.call.hex))
    // The system shows it at the app's icon; 0 removes what is there.
    if let unread = draft.job.unread { members.append(PayloadMember("badge", Int64(unread))) }
    return PayloadMember("aps", members)
  }

  /// A text of the app, by its key, with the caller as its argument.
  static func alert(_ key: String, _ draft: PushDraft) -> PayloadMember {
    PayloadMember(
      "alert",
      [PayloadMember("loc-key", key), PayloadMember("loc-args", .texts([draft.caller.shownName]))])
  }

  private static func missedKey(_ job: PushJob) -> String {
    job.video ? "CALLMESH_MISSED_VIDEO_CALL" : "CALLMESH_MISSED_CALL"
  }

  private static func endedKey(_ job: PushJob) -> String {
    switch job.reason {
    case .answeredElsewhere, .glare, .moved, .transferred: "CALLMESH_ANSWERED_ELSEWHERE"
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
