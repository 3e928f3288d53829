package import CallCore

/// The events that a webhook must get of a call, and those that it may get.
package struct WebhookDue: Sendable, Equatable {
  package let call: CallID
  package private(set) var needed: AppEventKinds = []
  package private(set) var allowed = AppEventKinds.all
  /// The name of the end reason, as the caller knows it; nil: the caller does not.
  package let reason: String?

  package init(_ fate: CallFate) {
    call = fate.call
    reason = fate.reason?.name
    if fate.isAccepted { needed.formUnion(AppEventKinds(.placed)) }
    if fate.hasRung { needed.formUnion(AppEventKinds(.ringing)) }
    if fate.answeredBy != nil { needed.formUnion(AppEventKinds(.answered)) }
    if fate.isAccepted, fate.reason != nil { needed.formUnion(AppEventKinds(.ended)) }
    if !fate.missedBy.isEmpty, !fate.wentOn { needed.formUnion(AppEventKinds(.missed)) }
    if fate.excludesAnswer { allowed.subtract(AppEventKinds(.answered)) }
    if let reason = fate.reason, !reason.isMissedCall {
      allowed.subtract(AppEventKinds(.missed))
    }
  }
}
