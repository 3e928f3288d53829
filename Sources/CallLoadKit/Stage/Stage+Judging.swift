import CallCore
import CallJudge
import CallWire

/// Judges calls that are over, and counts what became of them.
extension Stage {
  func judge(_ call: CallID, at now: Timestamp) {
    guard let plan = plans[call] else { return }
    // A lost delivery may still be retransmitted.
    guard !isDisturbed(plan, at: now) else {
      return quiet.append((call, now + Self.quietSpan))
    }
    plans[call] = nil
    let found = checker.judge(call, at: now, allowed: plan.allowed) { devices[$0].isCallable }
    guard let verdict = found else { return }
    defer { pushes?.callJudged(plan) }
    histories?.judged(verdict.fate)
    if options.reportsWebhooks { result.webhooksDue.append(WebhookDue(verdict.fate)) }
    faults.judged(call, fate(verdict, plan))
  }

  private func fate(_ verdict: CallChecker.Verdict, _ plan: CallPlan) -> ChaosResult.Fate {
    if let violation = verdict.violations.first {
      fail("rule broken: \(violation.rule.title)")
      return .wrong
    }
    if plan.allowed.contains(verdict.outcome) {
      result.callsCompleted += 1
      return .asPlanned
    }
    if let fault = verdict.explainedBy {
      faults.explains("\(verdict.outcome.name) instead of \(plan.allowed[0].name)", by: fault)
      return verdict.outcome.isRefusal ? .refused : .changed
    }
    let planned = plan.allowed.map(\.name).joined(separator: " or ")
    let cause = "\(verdict.outcome.name) instead of \(planned)"
    fail(cause)
    result.failureExamples[cause] = result.failureExamples[cause] ?? verdict.story
    return .wrong
  }

  private func isDisturbed(_ plan: CallPlan, at now: Timestamp) -> Bool {
    guard !checker.timeline.isEmpty, now < plan.overAt + settle else { return false }
    let shards = checker.shards(of: plan.route, plan.callees, plan.transfer?.terms)
    return checker.timeline.isDisturbed(shards: shards, or: plan.devices, from: now, to: now)
  }
}
