package import CallCore

/// The events that a webhook must get of a call, and those that it may get. It travels from the process that judged
/// the call to the one that has the receiver.
package struct WebhookDue: Codable, Sendable, Equatable {
  private var high: UInt64
  private var low: UInt64
  private var must: UInt8
  private var may: UInt8
  /// The name of the end reason, as the caller knows it; nil: the caller does not.
  package var reason: String?

  package var call: CallID { CallID(high: high, low: low) }
  package var needed: AppEventKinds { AppEventKinds(rawValue: must) }
  package var allowed: AppEventKinds { AppEventKinds(rawValue: may) }

  package init(_ fate: CallFate) {
    (high, low) = (fate.call.high, fate.call.low)
    reason = fate.reason?.name
    var needed: AppEventKinds = []
    if fate.isAccepted { needed.formUnion(AppEventKinds(.placed)) }
    if fate.hasRung { needed.formUnion(AppEventKinds(.ringing)) }
    if fate.answeredBy != nil { needed.formUnion(AppEventKinds(.answered)) }
    if fate.isAccepted, fate.reason != nil { needed.formUnion(AppEventKinds(.ended)) }
    if !fate.missedBy.isEmpty, !fate.wentOn { needed.formUnion(AppEventKinds(.missed)) }
    var allowed = AppEventKinds.all
    if fate.excludesAnswer { allowed.subtract(AppEventKinds(.answered)) }
    if let reason = fate.reason, !reason.isMissedCall {
      allowed.subtract(AppEventKinds(.missed))
    }
    (must, may) = (needed.rawValue, allowed.rawValue)
  }
}
