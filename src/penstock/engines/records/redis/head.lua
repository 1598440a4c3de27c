-- Where the queue is.
return head()
