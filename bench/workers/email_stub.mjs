// Stands for `cloudflare:email`, which plain workerd lacks; nothing that is measured sends mail.
export class EmailMessage {}
