import CallClient
import CallCore
import CallPush

/// The push job of one call.
func pushJob(
  _ purpose: PushPurpose = .ring, dialect: PushDialect = .callmesh,
  provider: PushProvider = .apns, caller: Party = Party(user: "ann", device: "ann-phone"),
  video: Bool = false, headers: [CustomHeader] = [], reason: EndReason? = nil, by: Party? = nil,
  pushData: String = "", hasAlertToken: Bool = false, unread: UInt32? = nil
) -> PushJob {
  var job = PushJob(
    user: UserKey(app: "demo", user: "bob"), device: "bob-phone",
    call: CallID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")!, purpose: purpose,
    token: PushToken(provider: provider, environment: "production", topic: "t", token: "c0ffee"),
    dialect: dialect, caller: caller, video: video, headers: headers,
    placedAt: Timestamp(microseconds: 1_790_000_000_000_999),
    ringDeadline: Timestamp(microseconds: 1_790_000_030_000_000),
    decidedAt: Timestamp(microseconds: 1_790_000_000_020_001),
    deadline: Timestamp(microseconds: 1_790_000_030_000_000), reason: reason, by: by,
    pushData: pushData, hasAlertToken: hasAlertToken)
  job.unread = unread
  return job
}

/// A job of each purpose in each dialect, for each of these providers.
func pushJobs(
  _ providers: [PushProvider] = [.apns, .fcm, .webPush],
  _ change: (inout PushJob) -> Void = { _ in }
) -> [PushJob] {
  PushDialect.allCases.flatMap { dialect in
    PushPurpose.allCases.flatMap { purpose in
      providers.map { provider in
        var job = pushJob(purpose, dialect: dialect, provider: provider)
        change(&job)
        return job
      }
    }
  }
}

extension PushJob {
  /// Its place in the table of all pushes.
  var row: String { "\(dialect) \(purpose) \(token.provider)" }
}

extension PushNews {
  var invite: PushInvite? { if case .invite(let invite) = self { invite } else { nil } }
  var stop: PushStop? { if case .stop(let stop) = self { stop } else { nil } }
  var missed: MissedCallNotice? { if case .missed(let notice) = self { notice } else { nil } }
}

extension PayloadOutcome {
  var payload: PushPayload? {
    if case .payload(let payload) = self { payload } else { nil }
  }

  /// The payload's text, or the name of the other outcome.
  var text: String {
    switch self {
    case .payload(let payload): String(decoding: payload.bytes, as: UTF8.self)
    case .noSuchPush: "none"
    case .refused(let refusal): refusal.reason
    }
  }
}

func encode(_ job: PushJob, capability: String = "cap") -> PayloadOutcome {
  PayloadEncoder.encode(PushContent(job: job, capability: capability))
}

func payload(_ text: String) -> [UInt8] { Array(text.utf8) }
